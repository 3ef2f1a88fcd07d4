// Write reports as CSV rows: node reports.mjs ORACLE EPSILON D COUNT VALUE [VALUE ...]

import { client } from "./client.mjs";

const [oracle, epsilon, d, count, ...values] = process.argv.slice(2);
const { perturb, text } = client(oracle, Number(epsilon), Number(d));
const rows = [];
for (const value of values) {
  for (let i = 0; i < Number(count); i += 1) rows.push(text(perturb(Number(value))));
}
process.stdout.write(`${rows.join("\n")}\n`);
