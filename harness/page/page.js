'use strict';
// The page's tables are sorted and filtered, its pictures tell what is under the pointer and hide a series. Without this
// script everything is there to be read.

const ROWS_AT_ONCE = 200;
const make = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};

// --- values

const grouped = value => value.toLocaleString('en-US', { maximumFractionDigits: 0 });
const digits = value => {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return grouped(value);
  const text = value.toPrecision(4);
  return text.includes('e') ? text : Math.abs(value) >= 1e4 ? grouped(value) : String(Number(text));
};
// A column's name ends in its unit: peak_bytes, step_ms. Those that are counted in tokens are named here.
const TOKENS = new Set(['context', 'chunk', 'max_context', 'tokens']);
const withUnit = (name, value) => {
  if (name.endsWith('_bytes')) {
    const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;
    for (; Math.abs(value) >= 1024 && at + 1 < units.length; at++) value /= 1024;
    return `${digits(value)} ${units[at]}`;
  }
  if (name.endsWith('_ms')) return value >= 20000 ? `${digits(value / 1000)} s` : `${digits(value)} ms`;
  if (name === 'seconds') return `${digits(value)} s`;
  return TOKENS.has(name) ? `${digits(value)} tokens` : digits(value);
};
const plainName = name => name.replace(/_(bytes|ms)$/, '').replaceAll('_', ' ');

// --- tables

// Numbers before texts, and what is not known last, in whichever order.
const keyOf = cell => {
  const text = cell.dataset.v ?? cell.textContent.trim();
  if (text === '' || text === '-' || text === '–') return { rank: 2 };
  const number = Number(text.replace(/,/g, '').replace(/ ?%$/, ''));
  return Number.isNaN(number) ? { rank: 1, text } : { rank: 0, number };
};
const inOrder = (a, b, sign) => {
  if (a.key.rank !== b.key.rank) return a.key.rank - b.key.rank;
  const order = a.key.rank === 0 ? a.key.number - b.key.number
    : a.key.rank === 1 ? a.key.text.localeCompare(b.key.text, undefined, { numeric: true }) : 0;
  return sign * order || a.at - b.at;
};

class Table {
  constructor(table) {
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.heads = [...table.tHead.rows[0].cells];
    this.shown = ROWS_AT_ONCE;
    this.choices = new Map();
    this.words = [];
    this.heads.forEach((head, column) => head.textContent.trim() && this.headWithButton(head, column));
    if (table.dataset.tools !== undefined && this.rows.length > 1) this.addTools(table.closest('.scroll'));
    this.order = this.rows;
    this.show();
  }
  headWithButton(head, column) {
    const button = make('button', { type: 'button', textContent: head.textContent.trim() });
    button.addEventListener('click', () => this.sort(column));
    head.replaceChildren(button);
  }
  addTools(box) {
    this.input = make('input', { type: 'search', placeholder: 'Filter rows: words, -word leaves out', ariaLabel: 'Filter rows' });
    this.count = make('output');
    this.texts = new Map(this.rows.map(row => [row, row.textContent.toLowerCase()]));
    const tools = make('div', { className: 'tools' }, this.input);
    this.heads.forEach((head, column) => head.dataset.choice !== undefined && this.addChoice(tools, head, column));
    tools.append(this.count);
    this.more = make('button', { type: 'button', className: 'plain more', hidden: true });
    this.input.addEventListener('input', () => {
      this.words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.show();
    });
    this.more.addEventListener('click', () => {
      this.shown = Infinity;
      this.show();
    });
    box.before(tools);
    box.after(this.more);
    // Paper has no button for more.
    addEventListener('beforeprint', () => this.show(Infinity));
    addEventListener('afterprint', () => this.show());
  }
  addChoice(tools, head, column) {
    const values = [...new Set(this.rows.map(row => row.cells[column].textContent))]
      .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    if (values.length < 2) return;
    const name = head.textContent.trim();
    const select = make('select', { ariaLabel: name }, make('option', { value: '', textContent: `any ${name}` }),
      ...values.map(value => make('option', { value, textContent: value })));
    select.addEventListener('change', () => {
      this.choices.set(column, select.value);
      this.show();
    });
    tools.append(select);
  }
  sort(column) {
    const head = this.heads[column];
    const next = { none: 'ascending', ascending: 'descending', descending: 'none' }[head.ariaSort ?? 'none'];
    this.heads.forEach(other => other.removeAttribute('aria-sort'));
    this.order = this.rows;
    if (next !== 'none') {
      head.setAttribute('aria-sort', next);
      const sign = next === 'ascending' ? 1 : -1;
      this.order = this.rows.map((row, at) => ({ row, at, key: keyOf(row.cells[column]) }))
        .sort((a, b) => inOrder(a, b, sign)).map(entry => entry.row);
    }
    this.show();
  }
  holds(row) {
    for (const [column, value] of this.choices) if (value && row.cells[column].textContent !== value) return false;
    return this.words.every(word => word.length > 1 && word[0] === '-' ? !this.texts.get(row).includes(word.slice(1))
      : this.texts.get(row).includes(word));
  }
  show(most = this.shown) {
    const found = this.input ? this.order.filter(row => this.holds(row)) : this.order;
    this.body.replaceChildren(...(this.input ? found.slice(0, most) : found));
    if (!this.input) return;
    const all = grouped(this.rows.length);
    this.count.textContent = found.length === this.rows.length ? `${all} rows` : `${grouped(found.length)} of ${all} rows`;
    this.more.hidden = found.length <= most;
    this.more.textContent = `Show all ${grouped(found.length)} rows; these are the first ${ROWS_AT_ONCE}`;
  }
}

// --- pictures

const tip = document.getElementById('tip');
const REACH = 28; // pixels between the pointer and a mark that it is at

const showTip = (label, values, x, y) => {
  const rows = values.map(([name, value]) => make('tr', {}, make('td', { textContent: plainName(name) }),
    make('td', { textContent: withUnit(name, value) })));
  tip.replaceChildren(make('b', { textContent: label }), make('table', {}, make('tbody', {}, ...rows)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 12) : y + 18}px`;
};

class Picture {
  constructor(figure) {
    this.svg = figure.querySelector('svg');
    this.labels = JSON.parse(figure.dataset.series);
    this.parts = this.labels.map(() => []);
    this.marks = [];
    this.hidden = new Set();
    this.findParts();
    if (this.labels.length > 1) this.labels.forEach((label, series) => this.parts[series].length && this.addSwitch(label, series));
    this.ring = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
    for (const [name, value] of Object.entries({ r: 7, fill: 'none', stroke: '#333', 'stroke-width': 1.5, visibility: 'hidden', 'pointer-events': 'none' }))
      this.ring.setAttribute(name, value);
    this.svg.append(this.ring);
    this.svg.addEventListener('pointermove', event => this.point(event));
    this.svg.addEventListener('pointerdown', event => this.point(event));
    this.svg.addEventListener('pointerleave', () => this.point(null));
  }
  // gnuplot writes the name of a series into what it draws of it, and what a mark tells beside the mark.
  findParts() {
    for (const group of this.svg.querySelectorAll('g[id*="gnuplot_plot_"]')) {
      const title = group.querySelector(':scope > title');
      const series = this.labels.indexOf(title ? title.textContent.trim() : '');
      if (series >= 0) this.parts[series].push(group);
    }
    for (const group of this.svg.querySelectorAll('g[data-told]')) {
      const [[, series], ...values] = group.dataset.told.split(' ').map(pair => pair.split('='));
      const at = /translate\(([-\d.]+),([-\d.]+)\)/.exec(group.querySelector('use')?.getAttribute('transform') ?? '');
      if (at) this.marks.push({
        series: Number(series) - 1, x: Number(at[1]), y: Number(at[2]),
        values: values.map(([name, value]) => [name, Number(value)]).filter(([, value]) => !Number.isNaN(value)),
      });
    }
    this.svg.querySelectorAll('g title').forEach(title => title.remove());
  }
  addSwitch(label, series) {
    const text = [...this.svg.querySelectorAll('text')].find(element =>
      element.textContent.trim() === label && !element.classList.contains('switch') && !this.parts[series].some(part => part.contains(element)));
    if (!text) return;
    text.classList.add('switch');
    for (const [name, value] of Object.entries({ role: 'button', tabindex: 0, 'aria-pressed': true }))
      text.setAttribute(name, value);
    const turn = () => {
      const shown = this.hidden.delete(series);
      if (!shown) this.hidden.add(series);
      text.setAttribute('aria-pressed', shown);
      this.parts[series].forEach(part => part.setAttribute('visibility', shown ? 'visible' : 'hidden'));
      this.point(null);
    };
    text.addEventListener('click', turn);
    text.addEventListener('keydown', event => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      turn();
    });
  }
  point(event) {
    const matrix = event && this.svg.getScreenCTM();
    const at = matrix && new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let nearest = null, least = at ? (REACH / matrix.a) ** 2 : 0;
    for (const mark of at ? this.marks : []) {
      const distance = (mark.x - at.x) ** 2 + (mark.y - at.y) ** 2;
      if (distance < least && !this.hidden.has(mark.series)) [nearest, least] = [mark, distance];
    }
    this.ring.setAttribute('visibility', nearest ? 'visible' : 'hidden');
    tip.hidden = !nearest;
    if (!nearest) return;
    this.ring.setAttribute('cx', nearest.x);
    this.ring.setAttribute('cy', nearest.y);
    showTip(this.labels[nearest.series] ?? '', nearest.values, event.clientX, event.clientY);
  }
}

// One picture is shown of those that differ only in context: the longest, or the chosen or linked one.
class Alike {
  constructor(box) {
    this.figures = [...box.querySelectorAll(':scope > figure')];
    const contextOf = figure => Number(/-context-(\d+)$/.exec(figure.getAttribute('aria-label'))[1]);
    this.figures.sort((a, b) => contextOf(a) - contextOf(b));
    this.select = make('select', { ariaLabel: 'context' }, ...this.figures.map(figure =>
      make('option', { value: figure.id, textContent: `context ${grouped(contextOf(figure))}` })));
    this.select.addEventListener('change', () => this.show(this.select.value));
    box.prepend(make('div', { className: 'choice' }, this.select));
    this.show(this.figures.at(-1).id);
    addEventListener('hashchange', () => this.follow());
    this.follow();
  }
  show(id) {
    this.select.value = id;
    for (const figure of this.figures) figure.hidden = figure.id !== id;
  }
  follow() {
    const linked = this.figures.find(figure => `#${figure.id}` === location.hash);
    if (!linked) return;
    this.show(linked.id);
    linked.scrollIntoView();
  }
}

// --- copying

const said = document.getElementById('said');
let saidUntil;
const say = (words, text) => {
  said.replaceChildren(words, make('code', { textContent: text }));
  said.hidden = false;
  clearTimeout(saidUntil);
  saidUntil = setTimeout(() => { said.hidden = true; }, 4000);
};
// Without access to the clipboard, selects the text and copies it as a user would.
const copy = async text => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make('textarea', { value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (!done) return say('', text);
  }
  say('Copied: ', text);
};
document.addEventListener('click', event => {
  const button = event.target.closest('button[data-copy]');
  if (button) copy(button.dataset.copy);
});

document.querySelectorAll('table.sortable').forEach(table => new Table(table));
document.querySelectorAll('figure[data-series]').forEach(figure => new Picture(figure));
document.querySelectorAll('.alike').forEach(box => new Alike(box));
addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });
