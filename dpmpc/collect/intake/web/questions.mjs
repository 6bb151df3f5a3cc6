// A field of the form for each variable: a number, a date, or a choice, with its meaning and its error in words. Answers
// are those of `Client.row`; texts of the task file become text, never markup.

const SILENT = 'I would rather not say';
const FEW = 6; // choices that are shown as buttons, not as a list
const THOUSANDS = /^[+-]?[1-9]\d{0,2},\d{3}$/; // or decimals: nobody can tell, and it is a factor of 1,000
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

export function make(parent, kind, properties = {}, attributes = {}) {
  const made = Object.assign(document.createElement(kind), properties);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
}

/** A text of the task file, but for names of columns, which are printable, with its control characters, and those that turn or hide text, made visible. */
export const visible = text => text.replace(/(?! )[\p{C}\p{Z}]/gu, one => `\\u{${one.codePointAt(0).toString(16)}}`);

/** An answer within the bounds, and how the summary says it. */
function within(answer, { lower, upper }, unit = '') {
  const sent = answer < lower ? lower : answer > upper ? upper : answer;
  return { answer: sent, words: `${answer}${unit && ` ${unit}`}${sent === answer ? '' : `, sent as ${sent}`}` };
}

function readNumber(typed, variable) {
  const given = typed.trim(), text = THOUSANDS.test(given) ? '' : given.replace(/^([+-]?\d*),(\d+)$/, '$1.$2');
  return NUMBER.test(text) && Number.isFinite(Number(text)) ? within(Number(text), variable, variable.unit) : null;
}

/** A typed number or date, with a box to tick where it may be missing. */
function typed(parent, variable, id, described) {
  const { kind, lower, upper, unit, mayBeMissing } = variable, isDate = kind === 'date';
  const facts = isDate ? { type: 'date', min: lower, max: upper } : { type: 'text', inputMode: 'decimal' };
  const input = make(parent, 'input', { id, required: !mayBeMissing, autocomplete: 'off', ...facts }, described);
  const silent = !mayBeMissing ? undefined : make(make(parent, 'label', { className: 'choice', htmlFor: `${id}-none` }), 'input', { type: 'checkbox', id: `${id}-none` });
  if (silent) {
    silent.parentElement.append(SILENT);
    silent.addEventListener('change', () => (input.disabled = silent.checked));
  }
  const expected = () => isDate ? `Choose a date, such as ${lower}.`
    : THOUSANDS.test(input.value.trim()) ? 'Type it with a point before decimals, and nothing between thousands.'
      : `Type a number, such as ${Number(((lower + upper) / 2).toPrecision(6))}.`;
  return {
    hint: `${isDate ? 'A date' : 'A number'} from ${lower} to ${upper}${unit && ` ${unit}`}. One outside is moved to the nearer end on your device.`,
    main: input,
    inputs: silent ? [input, silent] : [input],
    wrong: () => `${expected()}${silent ? ` Or tick "${SILENT}".` : ''}`,
    read: () => silent?.checked ? { answer: null, words: SILENT }
      : isDate ? (input.value ? within(input.value, variable) : null) : readNumber(input.value, variable),
  };
}

/** A choice among values: a few as radio buttons, more as a list. */
function chosen(parent, { kind, values, mayBeMissing }, id, described) {
  const answers = [...values.map((value, place) => [value, kind === 'yes-no' ? place === 0 : value]), ...(mayBeMissing ? [[SILENT, null]] : [])];
  let main, inputs, place;
  if (answers.length > FEW) {
    main = make(parent, 'select', { id, required: true, autocomplete: 'off' }, described);
    inputs = [main];
    ['', ...answers.map(([words]) => words)].forEach((words, one) => make(main, 'option', { value: one ? `${one - 1}` : '', textContent: words }));
    place = () => main.value;
  } else {
    inputs = answers.map(([words], one) => {
      const label = make(parent, 'label', { className: 'choice', htmlFor: `${id}-${one}` });
      const input = make(label, 'input', { type: 'radio', id: `${id}-${one}`, name: id, value: `${one}`, required: true, autocomplete: 'off' });
      label.append(words);
      return input;
    });
    main = parent;
    place = () => inputs.find(input => input.checked)?.value ?? '';
  }
  return {
    hint: 'Choose one.',
    main,
    inputs,
    wrong: () => 'Choose one of the answers.',
    read: () => place() === '' ? null : { answer: answers[place()][1], words: answers[place()][0] },
  };
}

/** A field, its hint and its error; `checked` returns the answer and the words for the summary, or null. */
export function question(parent, variable, place) {
  const { name, values } = variable, [label, meaning] = [variable.label, variable.meaning].map(visible), id = `field-${place}`, described = { 'aria-describedby': `${id}-hint ${id}-error` };
  const group = values && values.length + variable.mayBeMissing <= FEW;
  const block = make(parent, group ? 'fieldset' : 'div', { className: 'field' }, group ? { role: 'radiogroup', ...described } : {});
  make(block, group ? 'legend' : 'label', group ? { textContent: label } : { htmlFor: id, textContent: label });
  const hint = make(block, 'p', { className: 'hint', id: `${id}-hint` });
  const { hint: range, main, inputs, wrong, read } = (values ? chosen : typed)(block, variable, id, group ? {} : described);
  hint.textContent = meaning ? `${meaning}${/[.!?:…。]$/.test(meaning) ? '' : '.'} ${range}` : range;
  const error = make(block, 'p', { className: 'error', id: `${id}-error` });
  const checked = () => {
    const found = read();
    main.setAttribute('aria-invalid', `${found === null}`);
    error.textContent = found === null ? wrong() : '';
    return found;
  };
  for (const input of inputs) input.addEventListener('input', () => error.textContent && checked());
  return { name, label, checked, focus: () => inputs[0].focus() };
}

/** The two fields of a ticket; `checked` returns its part, or null. */
export function ticketFields(parent) {
  const texts = { report: [32, 'Report of your ticket'], secret: [64, 'Secret of your ticket'] };
  return Object.entries(texts).map(([part, [length, name]]) => {
    const block = make(parent, 'div', { className: 'field' }), id = `ticket-${part}`;
    make(block, 'label', { htmlFor: id, textContent: name });
    make(block, 'p', { className: 'hint', id: `${id}-hint`, textContent: `${length} digits from 0 to 9 and a to f.` });
    const described = { 'aria-describedby': `${id}-hint ${id}-error`, spellcheck: 'false' };
    const input = make(block, 'input', { id, type: 'text', required: true, autocomplete: 'off' }, described);
    const error = make(block, 'p', { className: 'error', id: `${id}-error` });
    const checked = () => {
      const typed = input.value.trim().toLowerCase(), fits = typed.length === length && /^[0-9a-f]*$/.test(typed);
      input.setAttribute('aria-invalid', `${!fits}`);
      error.textContent = fits ? '' : `${length} digits from 0 to 9 and a to f expected.`;
      return fits ? { ticket: [part, typed] } : null;
    };
    return { checked, focus: () => input.focus() };
  });
}
