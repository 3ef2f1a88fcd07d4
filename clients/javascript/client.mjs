// A client of ldpopt's protocols in JavaScript: randomises one value into one report.
//
// It has no dependencies and calculates in whole numbers alone: probabilities are multiples of
// 2^-64, computed with BigInt and rounded to the side that never costs privacy. Randomness is that
// of crypto.getRandomValues. docs/protocol.md describes every step.

const WORD = 1n << 64n;

// --- exponentials ---------------------------------------------------------------------------------

// Fixed point: far more bits than the 64 of a word, so that thresholds come out as in Python.
const SCALE = 1n << 320n;

/** Return a double > 0 as a fraction of two whole numbers: every double is one. */
function fraction(x) {
  let denominator = 1n;
  // Each step is exact: doubling changes the exponent alone.
  while (!Number.isInteger(x)) {
    x *= 2;
    denominator *= 2n;
  }
  return [BigInt(x), denominator];
}

/** Return a whole number that is not above e^(numerator/denominator) in units of 1/SCALE. */
function expBelow(numerator, denominator) {
  const x = (numerator * SCALE) / denominator;
  let term = SCALE;
  let sum = 0n;
  // Taylor's series: all terms are positive and each is rounded down, so that the sum is a bound.
  for (let n = 1n; term > 0n; n += 1n) {
    sum += term;
    term = (term * x) / (SCALE * n);
  }
  return sum;
}

// --- randomness -----------------------------------------------------------------------------------

const buffer = new BigUint64Array(1024);
let used = buffer.length;

/** Return a uniform 64-bit word from the system's entropy. */
function word() {
  if (used === buffer.length) {
    crypto.getRandomValues(buffer);
    used = 0;
  }
  const result = buffer[used];
  // A word serves once, and is not kept where others could read it later.
  buffer[used] = 0n;
  used += 1;
  return result;
}

/** Return true with probability threshold / 2^64. */
function bernoulli(threshold) {
  return word() < threshold;
}

/** Return a uniform whole number in 0 .. bound-1, bound <= 2^32, without modulo bias. */
function below(bound) {
  const n = BigInt(bound);
  // The last, incomplete run of numbers below 2^64 is left out.
  const limit = WORD - (WORD % n);
  let drawn = word();
  while (drawn >= limit) drawn = word();
  return Number(drawn % n);
}

/** Return value with probability keep / 2^64, else a uniform one of the other size-1 values. */
function respond(value, size, keep) {
  const other = below(size - 1);
  // Both are drawn whatever the coin shows, so that the time taken says little about it.
  const moved = other >= value ? other + 1 : other;
  return bernoulli(keep) ? value : moved;
}

// --- the hash family of local hashing -------------------------------------------------------------

const MASK = WORD - 1n;

/** Return the bucket in 0 .. g-1 of a value under a 64-bit seed (BigInt): splitmix64's mix. */
export function bucketOf(seed, value, g) {
  let h = (seed + (BigInt(value) + 1n) * 0x9e3779b97f4a7c15n) & MASK;
  h ^= h >> 30n;
  h = (h * 0xbf58476d1ce4e5b9n) & MASK;
  h ^= h >> 27n;
  h = (h * 0x94d049bb133111ebn) & MASK;
  h ^= h >> 31n;
  return Number(((h >> 32n) * BigInt(g)) >> 32n);
}

// --- the protocols --------------------------------------------------------------------------------

/** Return the threshold of numerator/denominator on 64-bit words, rounded down. */
function threshold(numerator, denominator) {
  return (WORD * numerator) / denominator;
}

/** What each protocol computes once from its parameters. E is e^ε in units of 1/SCALE, from below. */
const SETTINGS = {
  grr: ({ d, E }) => ({ p: threshold(E, E + BigInt(d - 1) * SCALE) }),
  sue: ({ epsilon }) => {
    const [numerator, denominator] = fraction(epsilon);
    // The root's exponential: p/q is its square.
    const root = expBelow(numerator, 2n * denominator);
    const p = threshold(root, root + SCALE);
    return { p, q: WORD - p };
  },
  oue: ({ E }) => ({ p: WORD / 2n, q: WORD - threshold(E, E + SCALE) }),
  olh: ({ E, rounding = "nearest" }) => {
    const half = rounding === "nearest" ? SCALE / 2n : 0n;
    return hashing(Math.max(2, Number((E + SCALE + half) / SCALE)), E);
  },
  blh: ({ E }) => hashing(2, E),
  ss: ({ d, E, rounding = "best" }) => {
    const k = rounding === "best" ? bestSize(d, E) : nearestSize(d, E);
    return { k, p: threshold(BigInt(k) * E, BigInt(k) * E + BigInt(d - k) * SCALE) };
  },
  hr: ({ d, E }) => ({ columns: 2 ** d.toString(2).length, p: threshold(E, E + SCALE) }),
};

function hashing(g, E) {
  return { g, p: threshold(E, E + BigInt(g - 1) * SCALE) };
}

/** Return the set size with the least expected squared error over the domain. */
function bestSize(d, E) {
  const size = Number((BigInt(d) * SCALE) / (E + SCALE));
  const k = BigInt(Math.max(1, size));
  if (k + 1n === BigInt(d)) return Number(k);
  const inside = k * (k + 1n) * E * E;
  const outside = (BigInt(d) - k) * (BigInt(d) - k - 1n) * SCALE * SCALE;
  return Number(inside >= outside ? k : k + 1n);
}

/** Return the whole number nearest to d/(e^ε + 1), at least 1. */
function nearestSize(d, E) {
  const twice = (2n * BigInt(d) * SCALE) / (E + SCALE);
  return Math.max(1, Number((twice + 1n) / 2n));
}

/** How each protocol turns a value into a report. */
const PERTURB = {
  grr: ({ d, p }, value) => respond(value, d, p),
  sue: unary,
  oue: unary,
  olh: hashed,
  blh: hashed,
  ss: subset,
  hr: ({ columns, p }, value) => {
    const row = value + 1;
    const index = below(columns);
    const isPositive = parity(index & row) === 0;
    const flipped = (index ^ (row & -row)) >>> 0;
    return isPositive === bernoulli(p) ? index : flipped;
  },
};

function parity(x) {
  let ones = 0;
  for (let rest = x; rest; rest >>>= 1) ones ^= rest & 1;
  return ones;
}

/** d bits in ceil(d/8) bytes; the first value is the highest bit of the first byte. */
function unary({ d, p, q }, value) {
  const bytes = new Uint8Array(Math.ceil(d / 8));
  for (let v = 0; v < d; v += 1) {
    if (bernoulli(v === value ? p : q)) bytes[v >> 3] |= 0x80 >> (v & 7);
  }
  return bytes;
}

/** A 64-bit seed, drawn before the value is looked at, and the randomised bucket. */
function hashed({ g, p }, value) {
  const seed = word();
  return { seed, bucket: respond(bucketOf(seed, value, g), g, p) };
}

/** k values in ascending order: the own one with probability p, the others uniform. */
function subset({ d, k, p }, value) {
  const withOwn = bernoulli(p);
  const others = new Set();
  const wanted = withOwn ? k - 1 : k;
  // Floyd's sampling of the d-1 other values, numbered without the own one.
  for (let last = d - 1 - wanted; last < d - 1; last += 1) {
    const drawn = below(last + 1);
    others.add(others.has(drawn) ? last : drawn);
  }
  const members = [...others].map((v) => (v >= value ? v + 1 : v));
  if (withOwn) members.push(value);
  return members.sort((a, b) => a - b);
}

/**
 * Return a client of a protocol.
 *
 * @param {string} oracle one of grr, sue, oue, olh, blh, ss, hr
 * @param {number} epsilon the privacy budget in nats, 0 < epsilon <= 100
 * @param {number} d the number of values, 2 .. 2^24
 * @param {{rounding?: string}} options of olh ("nearest", "floor") and ss ("best", "nearest")
 * @returns {{settings: object, perturb: (value: number) => any, text: (report: any) => string}}
 */
export function client(oracle, epsilon, d, options = {}) {
  if (!Object.hasOwn(SETTINGS, oracle)) {
    throw new RangeError(`unknown oracle ${oracle}; known: ${Object.keys(SETTINGS).join(", ")}`);
  }
  if (typeof epsilon !== "number" || !(epsilon > 0 && epsilon <= 100)) {
    throw new RangeError(`epsilon must be a number in (0, 100], got ${epsilon}`);
  }
  if (!Number.isInteger(d) || d < 2 || d > 2 ** 24) {
    throw new RangeError(`d must be a whole number in 2 .. 2**24, got ${d}`);
  }
  const [numerator, denominator] = fraction(epsilon);
  const E = expBelow(numerator, denominator);
  const computed = SETTINGS[oracle]({ epsilon, d, E, ...options });
  const settings = Object.freeze({ oracle, epsilon, d, ...options, ...computed });
  return Object.freeze({
    settings,
    perturb(value) {
      if (!Number.isInteger(value) || value < 0 || value >= d) {
        throw new RangeError(`value must be a whole number in 0 .. ${d - 1}, got ${value}`);
      }
      return PERTURB[oracle](settings, value);
    },
    text: (report) => text(report),
  });
}

/** Return a report as a row of CSV. */
function text(report) {
  if (report instanceof Uint8Array) {
    return Array.from(report, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  if (Array.isArray(report)) return report.join(" ");
  return typeof report === "number" ? String(report) : `${report.seed},${report.bucket}`;
}

/** Return the values that a report supports, as the server counts them. */
export function support(settings, report) {
  const values = Array.from({ length: settings.d }, (_, v) => v);
  return values.filter((v) => supports(settings, report, v));
}

function supports({ oracle, g }, report, v) {
  switch (oracle) {
    case "grr":
      return report === v;
    case "hr":
      return parity(report & (v + 1)) === 0;
    case "ss":
      return report.includes(v);
    case "sue":
    case "oue":
      return (report[v >> 3] & (0x80 >> (v & 7))) !== 0;
    default:
      return bucketOf(report.seed, v, g) === report.bucket;
  }
}
