// Shows what /metrics of this kerfd says. Everything is put in as text, nothing as markup, and
// nothing is asked of anybody else.
'use strict';

const POLL_MS = 2000;
// An answer that takes longer is none.
const ANSWER_MS = 8000;
const RATE_SAMPLES = 5;
const CURVE_SAMPLES = 150;

// ---- what was read

// The text format 0.0.4: a map from name to a list of {labels, value}.
function parse(text) {
  const metrics = new Map();
  for (const line of text.split('\n')) {
    const found = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const label of (found[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[label[1]] = label[2].replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    }
    if (!metrics.has(found[1])) metrics.set(found[1], []);
    metrics.get(found[1]).push({labels, value: found[3] === '+Inf' ? Infinity : Number(found[3])});
  }
  return metrics;
}

class Samples {
  constructor() {
    this.all = [];
  }

  add(seconds, metrics) {
    // A kerfd that was started anew counts from 0: what was before says nothing of it.
    if (this.all.length > 0 && startOf(this.last().metrics) !== startOf(metrics)) this.all = [];
    this.all.push({seconds, metrics});
    if (this.all.length > CURVE_SAMPLES + RATE_SAMPLES) this.all.shift();
  }

  last() {
    return this.all[this.all.length - 1];
  }

  // Undefined: this kerfd has no such metric. With labels: the sum of those that have them.
  value(name, labels, at = this.all.length - 1) {
    const entries = this.all[at].metrics.get(name);
    if (!entries) return undefined;
    let sum = 0;
    for (const entry of entries) {
      if (Object.entries(labels || {}).every(([key, value]) => entry.labels[key] === value)) {
        sum += entry.value;
      }
    }
    return sum;
  }

  // A second, over the samples before `at`; undefined with only one.
  rate(name, labels, at = this.all.length - 1) {
    const from = Math.max(0, at - RATE_SAMPLES);
    const seconds = this.all[at].seconds - this.all[from].seconds;
    const last = this.value(name, labels, at);
    const first = this.value(name, labels, from);
    if (!(seconds > 0) || last === undefined || first === undefined) return undefined;
    return Math.max(0, last - first) / seconds;
  }

  rates(name) {
    return this.all.map((_, at) => this.rate(name, {}, at)).filter((rate) => rate !== undefined);
  }

  // Those with a value, the largest first.
  parts(name, label) {
    return (this.last().metrics.get(name) || [])
      .filter((entry) => entry.value > 0)
      .map((entry) => [entry.labels[label], entry.value])
      .sort((a, b) => b[1] - a[1]);
  }
}

function startOf(metrics) {
  const entries = metrics.get('process_start_time_seconds');
  return entries ? entries[0].value : undefined;
}

// ---- for people

function count(value) {
  return value === undefined ? '–' : Math.round(value).toLocaleString('en-US');
}

function scaled(value, units, step) {
  if (value === undefined) return '–';
  let at = 0;
  while (value >= step && at + 1 < units.length) {
    value /= step;
    ++at;
  }
  const digits = at === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits) + ' ' + units[at];
}

function bytes(value) {
  return scaled(value, ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'], 1000);
}

function binaryBytes(value) {
  return scaled(value, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'], 1024);
}

function share(part, whole) {
  return whole > 0 ? ((100 * part) / whole).toFixed(1) + ' %' : '–';
}

function duration(seconds) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  for (let at = 0; at < units.length; ++at) {
    const [size, name] = units[at];
    if (seconds < size && at + 1 < units.length) continue;
    const whole = Math.floor(seconds / size) + ' ' + name;
    const next = units[at + 1];
    return next ? whole + ' ' + Math.floor((seconds % size) / next[0]) + ' ' + next[1] : whole;
  }
  return '';
}

// ---- what is shown

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

function drawing(width, height) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  return svg;
}

function shape(svg, tag, attributes, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  svg.append(element);
}

function curve(values, label) {
  const svg = drawing(CURVE_SAMPLES, 40);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', label);
  const top = Math.max(...values, 1e-9);
  const begin = CURVE_SAMPLES - values.length;
  const points = values.map((value, at) => `${begin + at},${(39 - (37 * value) / top).toFixed(2)}`);
  shape(svg, 'polyline', {class: 'curve', points: points.join(' ')});
  return svg;
}

// Of a histogram's buckets, which count all that is not longer.
function bars(samples, name) {
  const buckets = (samples.last().metrics.get(name + '_bucket') || []).map((entry) => ({
    limit: entry.labels.le === '+Inf' ? Infinity : Number(entry.labels.le), count: entry.value,
  }));
  const own = buckets.map((bucket, at) => bucket.count - (at > 0 ? buckets[at - 1].count : 0));
  let first = own.findIndex((value) => value > 0);
  if (first < 0) return undefined;
  let last = own.length - 1;
  while (own[last] === 0) --last;
  first = Math.max(0, Math.min(first, last - 2));
  const width = 30 * (last - first + 1);
  const svg = drawing(width, 50);
  svg.setAttribute('preserveAspectRatio', 'xMidYMid meet');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', 'lengths of chunks');
  const top = Math.max(...own);
  for (let at = first; at <= last; ++at) {
    const height = (36 * own[at]) / top;
    const x = 30 * (at - first);
    shape(svg, 'rect', {class: 'bar', x: x + 3, y: 38 - height, width: 24, height});
    const limit = buckets[at].limit;
    shape(svg, 'text', {x: x + 15, y: 48, 'text-anchor': 'middle'},
          limit === Infinity ? 'more' : binaryBytes(limit).replace(/\.0+ /, ' ').replace('iB', ''));
  }
  return svg;
}

function meter(parts) {
  const bar = make('div', {className: 'meter'});
  ['first', 'second', 'third'].forEach((name, at) => {
    const part = make('span', {className: name});
    part.style.width = `${100 * (parts[at] || 0)}%`;
    bar.append(part);
  });
  return bar;
}

// Rows of [name, text, whether that is bad].
function table(rows) {
  const list = make('dl');
  for (const [name, text, isBad] of rows) {
    list.append(make('dt', {textContent: name}),
                make('dd', {textContent: text, className: isBad ? 'bad' : ''}));
  }
  return list;
}

function card(id, title, ...children) {
  return make('section', {id}, make('h2', {textContent: title}),
              ...children.filter((child) => child !== undefined));
}

function large(text) {
  return make('p', {className: 'large', textContent: text});
}

// Each makes its card, or nothing where this kerfd has no such thing.
const CARDS = [
  function throughput(samples) {
    const isFront = samples.value('kerf_front_calls') !== undefined;
    const name = isFront ? 'kerf_front_forwarded_bytes_total' : 'kerf_ingest_bytes_total';
    if (samples.value(name) === undefined) return undefined;
    const rows = isFront
      ? [['calls', `${count(samples.value('kerf_front_calls'))} of ${count(samples.value('kerf_front_max_calls'))}`]]
      : [['streams', `${count(samples.value('kerf_streams'))} of ${count(samples.value('kerf_max_streams'))}`],
         ['chunks a second', count(samples.rate('kerf_chunks_total'))]];
    rows.push(['since the start', bytes(samples.value(name))]);
    const rate = samples.rate(name);
    return card('throughput', isFront ? 'Passed on' : 'Throughput',
                large(rate === undefined ? '–' : bytes(rate) + '/s'),
                curve(samples.rates(name), 'bytes a second'), table(rows));
  },

  function workers(samples) {
    const live = samples.value('kerf_front_workers', {state: 'live'});
    if (live === undefined) return undefined;
    const lost = samples.value('kerf_front_workers', {state: 'lost'});
    return card('workers', 'Workers', large(`${count(live)} live`),
                table([['lost', count(lost), lost > 0],
                       ['clients that asked for theirs', count(samples.value('kerf_front_locates_total'))]]));
  },

  function deduplication(samples) {
    const name = 'kerf_chunk_bytes_total';
    const all = samples.value(name);
    if (all === undefined) return undefined;
    const of = (verdict) => samples.value(name, {verdict});
    const known = of('duplicate');
    return card('deduplication', 'Deduplication', large(share(known, all)),
                meter([known / all, of('new') / all, of('unverified') / all]),
                table([['known already', bytes(known)], ['new', bytes(of('new'))],
                       ['unverified', bytes(of('unverified'))]]));
  },

  function sizes(samples) {
    const chunks = samples.value('kerf_chunk_size_bytes_count');
    if (chunks === undefined) return undefined;
    const sum = samples.value('kerf_chunk_size_bytes_sum');
    return card('sizes', 'Chunks', large(chunks > 0 ? binaryBytes(sum / chunks) : '–'),
                bars(samples, 'kerf_chunk_size_bytes'),
                table([['chunks since the start', count(chunks)]]));
  },

  function index(samples) {
    const takes = samples.value('kerf_index_takes_commits');
    if (takes === undefined) return undefined;
    const rows = [['takes commits', takes === 1 ? 'yes' : 'no', takes !== 1]];
    const add = (title, name, show) => {
      const value = samples.value(name);
      if (value !== undefined) rows.push([title, show(value)]);
    };
    add('repositories', 'kerf_index_repositories', count);
    add('highest epoch', 'kerf_index_epoch', count);
    add('on disk', 'kerf_index_disk_bytes', bytes);
    add('free on its disk', 'kerf_index_disk_free_bytes', bytes);
    add('memory of all masters', 'kerf_redis_memory_bytes', bytes);
    const full = samples.value('kerf_redis_full_masters');
    if (full !== undefined) rows.push(['full masters', count(full), full > 0]);
    const entries = samples.value('kerf_index_entries');
    return card('index', 'Index', large(entries === undefined ? 'in Redis' : count(entries) + ' entries'),
                table(rows));
  },

  function memory(samples) {
    const resident = samples.value('process_resident_memory_bytes');
    const children = [large(bytes(resident))];
    const rows = [];
    const add = (title, used, limit) => {
      if (used === undefined) return;
      children.push(meter([0, limit > 0 ? Math.min(1, used / limit) : 0]));
      rows.push([title, `${bytes(used)} of ${bytes(limit)}`, limit > 0 && used > 0.95 * limit]);
    };
    for (const budget of ['input', 'work']) {
      add(`uploads, ${budget}`, samples.value('kerf_memory_bytes', {budget}),
          samples.value('kerf_memory_limit_bytes', {budget}));
    }
    add('calls over TCP', samples.value('kerf_door_memory_bytes'),
        samples.value('kerf_door_memory_limit_bytes'));
    return card('memory', 'Memory', ...children, table(rows));
  },

  function waits(samples) {
    const isFront = samples.value('kerf_front_calls') !== undefined;
    const stalled = samples.parts(isFront ? 'kerf_front_stalled_calls' : 'kerf_stalled_streams', 'place');
    const failures = samples.parts(isFront ? 'kerf_front_calls_ended_total' : 'kerf_streams_ended_total', 'reason')
      .filter(([reason]) => reason !== 'OK' && reason !== 'PASSED_ON');
    const refused = samples.parts(isFront ? 'kerf_front_calls_refused_total' : 'kerf_streams_refused_total', 'reason');
    const waiting = stalled.reduce((sum, [, value]) => sum + value, 0);
    return card('waits', isFront ? 'Calls that wait or failed' : 'Streams that wait or failed',
                large(waiting > 0 ? `${count(waiting)} wait` : 'nothing waits'),
                table([...stalled.map(([place, value]) => [`waits for ${place}`, count(value), true]),
                       ...refused.map(([reason, value]) => [`refused: ${reason}`, count(value)]),
                       ...failures.map(([reason, value]) => [`ended: ${reason}`, count(value)])]));
  },

  function gpus(samples) {
    const used = samples.value('kerf_gpus', {state: 'used'});
    const lost = samples.value('kerf_gpus', {state: 'lost'});
    if (used === undefined || used + lost === 0) return undefined;
    const wrong = samples.value('kerf_gpu_mismatches_total');
    return card('gpus', 'GPUs', large(`${count(used)} used`),
                table([['lost', count(lost), lost > 0],
                       ['cut there', bytes(samples.value('kerf_gpu_bytes_total'))],
                       ['cut by the CPU instead, pieces', count(samples.value('kerf_gpu_fallbacks_total'))],
                       ['batches that were wrong', count(wrong), wrong > 0]]));
  },

  function hints(samples) {
    const skipped = samples.value('kerf_cut_bytes_total', {how: 'skipped'});
    if (!skipped) return undefined;
    const all = samples.value('kerf_cut_bytes_total');
    return card('hints', 'Next-size hints', large(share(skipped, all)), meter([skipped / all]),
                table([['bytes that were not scanned', bytes(skipped)],
                       ['memory', bytes(samples.value('kerf_hint_cache_bytes'))]]));
  },

  function processes(samples) {
    const rows = [];
    const connections = samples.value('kerf_door_connections');
    if (connections !== undefined) {
      rows.push(['connections over TCP', `${count(connections)} of ${count(samples.value('kerf_door_max_connections'))}`]);
    }
    rows.push(['open files', `${count(samples.value('process_open_fds'))} of ${count(samples.value('process_max_fds'))}`],
              ['threads', count(samples.value('process_threads'))]);
    const expires = samples.value('kerf_tls_certificate_expires_seconds');
    if (expires !== undefined) {
      const left = expires - samples.last().seconds;
      rows.push(['certificate ends in', left > 0 ? duration(left) : 'it has ended', left < 14 * 86400]);
    }
    const audit = samples.value('kerf_audit_writable');
    if (audit !== undefined) rows.push(['audit log is written', audit === 1 ? 'yes' : 'no', audit !== 1]);
    const lines = samples.value('kerf_log_lines_lost_total');
    if (lines > 0) rows.push(['lines of the log that were lost', count(lines), true]);
    const cores = samples.rate('process_cpu_seconds_total');
    return card('process', 'Processors', large(cores === undefined ? '–' : cores.toFixed(2)),
                curve(samples.rates('process_cpu_seconds_total'), 'processors in use'), table(rows));
  },
];

// ---- asking

const samples = new Samples();

function show(id, text, className) {
  const element = document.getElementById(id);
  element.textContent = text;
  if (className !== undefined) element.className = className;
}

function showTrouble(text) {
  const element = document.getElementById('trouble');
  element.textContent = text;
  element.hidden = text === '';
}

async function ask(path) {
  const answer = await fetch(path, {signal: AbortSignal.timeout(ANSWER_MS), cache: 'no-store'});
  return {code: answer.status, text: await answer.text()};
}

function showState(ready) {
  const draining = samples.value('kerf_draining') === 1;
  const why = ready.text.trim();
  show('state', draining ? 'stopping' : ready.code === 200 ? 'ready' : 'not ready',
       'state ' + (ready.code === 200 ? 'good' : 'bad'));
  showTrouble(ready.code === 200 ? '' : why);
  const build = samples.last().metrics.get('kerf_build_info');
  const {version, role} = build ? build[0].labels : {};
  document.title = `kerfd ${role || ''} at ${location.host}`;
  const start = startOf(samples.last().metrics);
  show('about', `${version || ''}, role ${role || 'unknown'}, started ` +
                `${duration(Math.max(0, samples.last().seconds - start))} ago`);
}

async function poll() {
  try {
    const [page, ready] = await Promise.all([ask('metrics'), ask('readyz')]);
    if (page.code !== 200) {
      show('state', 'closed', 'state bad');
      showTrouble(page.text.trim());
      return;
    }
    samples.add(Date.now() / 1000, parse(page.text));
    showState(ready);
    const cards = CARDS.map((makeCard) => makeCard(samples)).filter((made) => made !== undefined);
    document.getElementById('cards').replaceChildren(...cards);
  } catch (error) {
    show('state', 'no answer', 'state bad');
    showTrouble(`kerfd does not answer: ${error.message}. What is below is as it was last.`);
  } finally {
    setTimeout(poll, POLL_MS);
  }
}

poll();
