# The longest context of each method on each card.
load scripts.'/style.gp'
extent = 'max_context'
heading = 'Longest planned context by method and card'
axis = 'context (tokens)'
load scripts.'/longest.gp'
