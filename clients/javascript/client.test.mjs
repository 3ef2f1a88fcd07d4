// node --test: the client against the vectors that the Python library wrote.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { bucketOf, client, support } from "./client.mjs";

const vectors = JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url)));

/** Whole numbers above 2^53 are text in JSON. */
function restored(report) {
  if (typeof report === "string") return Uint8Array.from(Buffer.from(report, "hex"));
  return report.seed === undefined ? report : { ...report, seed: BigInt(report.seed) };
}

for (const { oracle, epsilon, d, options, settings, reports } of vectors.protocols) {
  test(`${oracle} epsilon=${epsilon} d=${d} ${JSON.stringify(options)}`, () => {
    const made = client(oracle, epsilon, d, options);
    for (const [name, value] of Object.entries(settings)) {
      assert.equal(String(made.settings[name]), String(value), name);
    }
    for (const { report, supported } of reports) {
      assert.deepEqual(support(made.settings, restored(report)), supported);
    }
  });
}

test("the hash family", () => {
  for (const { seed, value, g, bucket } of vectors.hashes) {
    assert.equal(bucketOf(BigInt(seed), value, g), bucket);
  }
});

test("reports have the form that their protocol states", () => {
  const value = 5;
  for (let round = 0; round < 200; round += 1) {
    const grr = client("grr", 1, 9).perturb(value);
    assert.ok(grr >= 0 && grr < 9);
    const bits = client("oue", 1, 9).perturb(value);
    assert.equal(bits.length, 2);
    assert.equal(bits[1] & 0x7f, 0);
    const { settings, perturb } = client("ss", 1, 9);
    const members = perturb(value);
    assert.equal(members.length, settings.k);
    assert.deepEqual(members, [...new Set(members)].sort((a, b) => a - b));
    assert.ok(members.every((v) => v >= 0 && v < 9));
    assert.ok(client("hr", 1, 9).perturb(value) < 16);
    const local = client("olh", 1, 9);
    assert.ok(local.perturb(value).bucket < local.settings.g);
  }
});

test("what cannot be reported is refused", () => {
  assert.throws(() => client("rappor", 1, 9), /unknown oracle rappor; known: grr/);
  assert.throws(() => client("oue", 0, 9), /epsilon must be a number in \(0, 100\], got 0/);
  assert.throws(() => client("oue", "1", 9), /epsilon must be/);
  assert.throws(() => client("oue", 1, 1), /d must be a whole number/);
  assert.throws(() => client("oue", 1, 9).perturb(9), /value must be a whole number in 0 \.\. 8/);
  assert.throws(() => client("oue", 1, 9).perturb("3"), /value must be/);
});
