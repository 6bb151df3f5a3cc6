// What people are asked for, the numbers that their answers become, and the cells that these are counted in:
// `dpmpc.data.codebook`, `dpmpc.data.variables` and `dpmpc.linear.contributions.cells`.
//
// Promised: the columns of `Codebook.encode`, up to the last bits of logarithms and splines; an answer that is none is a
// RangeError that names the variable. Not promised: that the bounds of the columns follow from the variables, which the
// servers check before they serve a task file; that a number which a file has for what is missing, such as -9, is taken
// for that: only null is a missing answer here, and such a number is one within the bounds.

const DAY = 86_400_000; // milliseconds
const DIRECTIVES = { Y: '(?<Y>\\d{4})', y: '(?<y>\\d{2})', m: '(?<m>\\d{1,2})', d: '(?<d>\\d{1,2})', H: '\\d{1,2}', M: '\\d{1,2}', S: '\\d{1,2}', '%': '%' };
const DEGREE = 3; // of splines
const MISSING = 'missing';

const middle = ({ lower, upper }) => lower / 2 + upper / 2;

/** Days from the first of January 1970 to a date YYYY-MM-DD; NaN where there is no such day. */
function dayOf(text) {
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text) ?? [], date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCFullYear() > 0 ? date.getTime() / DAY : NaN;
}

/** A date in the format of the codebook, such as %d.%m.%Y, as YYYY-MM-DD; undefined where it is none of digits alone. */
function isoDate(text, format) {
  const literal = part => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const parts = format.split(/%(.)/s).map((part, place) => place % 2 ? DIRECTIVES[part] : literal(part));
  if (parts.includes(undefined)) return undefined;
  const { Y, y, m = '1', d = '1' } = new RegExp(`^${parts.join('')}$`).exec(text)?.groups ?? {};
  const year = Y ?? (y && `${Number(y) < 69 ? 20 : 19}${y}`), found = `${year}-${m.padStart(2, '0')}-${d.padStart(2, '0')}`;
  return Number.isNaN(dayOf(found)) ? undefined : found;
}

/** The values that a category can have, in the order of the file; what is not listed has a name of its own, or none. */
const listed = ({ values, other }) => other === undefined ? values : [...values, other];
const indicated = variable => listed(variable).filter(value => value !== (variable.reference ?? variable.values[0]));

function kindOf({ values, yes, no, date }) {
  return values ? 'category' : yes || no ? 'yes-no' : date === undefined ? 'number' : 'date';
}

/** A cubic B-spline's functions at x, but for the first (de Boor). */
function splines(x, { lower, upper, knots }) {
  const ends = end => Array(DEGREE + 1).fill(end), at = [...ends(lower), ...knots, ...ends(upper)];
  const count = knots.length + DEGREE + 1, found = Array(count).fill(0);
  let cell = DEGREE;
  while (cell < count - 1 && x >= at[cell + 1]) cell++;
  const basis = [1];
  for (let degree = 1; degree <= DEGREE; degree++) {
    let carried = 0;
    for (let one = 0; one < degree; one++) {
      const right = at[cell + one + 1] - x, left = x - at[cell + 1 - degree + one], share = basis[one] / (right + left);
      basis[one] = carried + right * share;
      carried = left * share;
    }
    basis.push(carried);
  }
  basis.forEach((value, one) => (found[cell - DEGREE + one] = value));
  return found.slice(1);
}

/** The names of a variable's columns, but for that of what is missing. */
function namesOf(variable) {
  const { name, transform, knots } = variable, kind = kindOf(variable);
  if (kind === 'category') return indicated(variable).map(value => `${name}=${value}`);
  if (transform === 'log') return [`log(${name})`];
  return transform === 'spline' ? knots.concat(Array(DEGREE).fill(0)).map((_, place) => `${name}[${place + 1}]`) : [name];
}

/** The numbers of a variable's columns, in their units, for an answer that is there. */
function numbersOf(variable, answer) {
  const { lower, upper, transform, yes, no } = variable, kind = kindOf(variable);
  const refuse = expected => {
    throw new RangeError(`${variable.name}: ${JSON.stringify(answer)} received, ${expected} expected`);
  };
  if (kind === 'category') {
    if (!listed(variable).includes(answer)) refuse(`one of ${listed(variable).join(', ')}`);
    return indicated(variable).map(value => (value === answer ? 1 : 0));
  }
  if (kind === 'yes-no') {
    const isYes = answer === true || yes.includes(answer);
    return isYes || answer === false || no.includes(answer) ? [isYes ? 1 : 0] : refuse('true or false');
  }
  if (kind === 'date') {
    const days = typeof answer === 'string' ? dayOf(answer) - dayOf(isoDate(lower, variable.date)) : NaN;
    return Number.isNaN(days) ? refuse('a date such as 2027-01-31') : [days];
  }
  if (typeof answer !== 'number' || !Number.isFinite(answer)) refuse('a finite number');
  if (transform === 'log') return [answer > 0 ? Math.log(answer) : Math.log(lower) - 1];
  return transform === 'spline' ? splines(Math.min(upper, Math.max(lower, answer)), variable) : [answer];
}

/** The variables of a schema of a task file, and the row that answers to them become. */
export class Codebook {
  #bounds;
  #variables;
  #products;

  constructor({ columns, codebook }) {
    this.#bounds = new Map(columns.map(column => [column.name, column]));
    this.#variables = codebook?.variables ?? columns;
    this.#products = codebook?.products ?? [];
    /** For people: what is asked, in the order of the file. */
    this.variables = Object.freeze(this.#variables.map(variable => {
      const kind = kindOf(variable), { name, label = '', meaning = '', unit = '', date } = variable;
      const choice = { category: () => listed(variable), 'yes-no': () => [variable.yes[0], variable.no[0]] }[kind]?.();
      const [lower, upper] = [variable.lower, variable.upper].map(end => (kind === 'date' ? isoDate(end, date) : end));
      if (kind === 'date' && (lower === undefined || upper === undefined)) {
        throw new RangeError(`${name}: a date in the format ${date} received, one of %Y, %y, %m, %d, %H, %M, %S expected, a year among them`);
      }
      const mayBeMissing = variable.if_missing !== undefined;
      return Object.freeze({ name, kind, label: label || name, meaning, unit, lower, upper, values: choice && Object.freeze([...choice]), mayBeMissing });
    }));
  }

  /** A number for each column, by its name; null is a missing answer. */
  row(answers) {
    const unknown = Object.keys(answers).find(name => !this.#variables.some(variable => variable.name === name));
    if (unknown !== undefined) throw new RangeError(`${unknown}: received, ${this.#variables.map(one => one.name)} expected`);
    const found = new Map(), terms = new Map();
    for (const variable of this.#variables) {
      const answer = answers[variable.name], names = namesOf(variable), gone = answer === null || answer === undefined;
      if (gone && variable.if_missing === undefined) throw new RangeError(`${variable.name}: none received, an answer expected`);
      const values = gone ? names.map(name => this.#middle(name)) : numbersOf(variable, answer);
      const marked = variable.if_missing === 'indicator';
      terms.set(variable.name, { names, values: values.map((value, place) => this.#clipped(names[place], value)), gone: gone && marked });
      names.forEach((name, place) => found.set(name, values[place]));
      if (marked) found.set(`${variable.name}=${MISSING}`, gone ? 1 : 0);
    }
    for (const factors of this.#products) {
      const [first, ...others] = factors.map(name => terms.get(name)), gone = factors.some(name => terms.get(name).gone);
      let names = first.names, values = first.values;
      for (const other of others) {
        names = names.flatMap(name => other.names.map(also => `${name}*${also}`));
        values = values.flatMap(value => other.values.map(also => value * also));
      }
      names.forEach((name, place) => found.set(name, gone ? this.#middle(name) : values[place]));
    }
    return Object.fromEntries([...this.#bounds.keys()].map(name => {
      if (!found.has(name)) throw new RangeError(`${name}: a column received that does not follow from the codebook`);
      return [name, found.get(name)];
    }));
  }

  #middle(name) {
    return this.#bounds.has(name) ? middle(this.#bounds.get(name)) : 0;
  }

  #clipped(name, value) {
    const { lower, upper } = this.#bounds.get(name) ?? { lower: value, upper: value };
    return Math.min(upper, Math.max(lower, value));
  }
}

const SET = 0.5; // an indicator above this is set

/** Where a normalised row is counted: one cell of each grid (`dpmpc.linear.contributions.cells.CellGrid`). */
export class Cells {
  #grids;

  constructor(grids) {
    this.#grids = grids.map(({ column, edges = [], missing, groups = [] }) => {
      const groupCount = groups.reduce((product, [, count]) => product * (count + 1), 1), cells = edges.length + 1;
      return { column, edges, missing, groups, groupCount, cells, size: groupCount * (cells + (missing === undefined ? 0 : 1)) };
    });
    this.count = this.#grids.reduce((sum, { size }) => sum + size, 0);
  }

  /** 1 in the cell of each grid that the row is in, and 0 elsewhere. */
  digits(z) {
    const found = new Float64Array(this.count);
    let start = 0;
    for (const { column, edges, missing, groups, groupCount, cells, size } of this.#grids) {
      let group = 0;
      for (const [first, count] of groups) {
        const shown = z.subarray(first, first + count), largest = Math.max(...shown);
        group = group * (count + 1) + (largest > SET ? 1 + shown.indexOf(largest) : 0);
      }
      const cell = column === undefined ? 0 : edges.reduce((below, edge) => below + (edge < z[column]), 0);
      const lacks = missing !== undefined && z[missing] > SET;
      found[start + (lacks ? groupCount * cells + group : group * cells + cell)] = 1;
      start += size;
    }
    return found;
  }
}
