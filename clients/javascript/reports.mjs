// Write reports as CSV: node reports.mjs ORACLE EPSILON D COUNT VALUE [VALUE ...]

import { client } from "./client.mjs";

const [oracle, epsilon, d, count, ...values] = process.argv.slice(2);
if (values.length === 0) {
  console.error("Usage: node reports.mjs ORACLE EPSILON D COUNT VALUE [VALUE ...]");
  process.exit(2);
}
const { perturb, text } = client(oracle, Number(epsilon), Number(d));
// Local hashing has two columns, as in the files of the library.
const rows = [["olh", "blh"].includes(oracle) ? "seed,bucket" : "report"];
for (const value of values) {
  for (let i = 0; i < Number(count); i += 1) rows.push(text(perturb(Number(value))));
}
process.stdout.write(`${rows.join("\n")}\n`);
