# The largest batch of each method on each card.
load scripts.'/style.gp'
extent = 'max_batch'
heading = 'Largest planned batch by method and card'
axis = 'batch (sequences)'
load scripts.'/longest.gp'
