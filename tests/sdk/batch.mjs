// Drives the whole Files and Batches API with the real client library, unmodified, and prints one
// JSON object of what it saw. Anything unexpected ends it with exit code 1.
//
//   OPENAI_BASE_URL=http://127.0.0.1:7480/v1 OPENAI_API_KEY=any node batch.mjs
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ maxRetries: 2 });
const count = 50;
const model = "m";
const line = (id, prompt, more = {}) =>
  JSON.stringify({
    custom_id: id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model, messages: [{ role: "user", content: prompt }], ...more },
  });
const lines = Array.from({ length: count }, (_, i) => line(`r${i}`, `question ${i}`));
lines.push(line("bad", '<<{"status":400}>>'));

async function until(id, ...statuses) {
  for (let i = 0; i < 600; ++i) {
    const batch = await client.batches.retrieve(id);
    if (statuses.includes(batch.status)) return batch;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${id} has not come to ${statuses}`);
}

async function collect(pages) {
  const ids = [];
  for await (const item of pages) ids.push(item.id);
  return ids;
}

// Upload: from memory, and as a stream from the disk.
const input = await client.files.create({
  file: await toFile(Buffer.from(lines.join("\n") + "\n"), "in.jsonl"),
  purpose: "batch",
  expires_after: { anchor: "created_at", seconds: 7200 },
});
assert.equal(input.status, "processed");
assert.equal(input.expires_at, input.created_at + 7200);
assert.match(input._request_id, /^req_/);
const onDisk = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "nightshift-sdk-")), "stream.jsonl");
fs.writeFileSync(onDisk, lines[0]);
const streamed = await client.files.create({ file: fs.createReadStream(onDisk), purpose: "batch" });
assert.equal(streamed.bytes, lines[0].length);
assert.equal((await client.files.retrieve(input.id)).bytes, lines.join("\n").length + 1);
assert.equal(await (await client.files.content(input.id)).text(), lines.join("\n") + "\n");

// The same in two parts, the second one first.
const whole = Buffer.from(lines.join("\n") + "\n");
const upload = await client.uploads.create({
  bytes: whole.length, filename: "parts.jsonl", mime_type: "text/jsonl", purpose: "batch",
});
const second = await client.uploads.parts.create(upload.id, { data: await toFile(whole.subarray(999), "blob") });
const first = await client.uploads.parts.create(upload.id, { data: await toFile(whole.subarray(0, 999), "blob") });
const joinedFile = (await client.uploads.complete(upload.id, { part_ids: [first.id, second.id] })).file;
assert.equal(await (await client.files.content(joinedFile.id)).text(), whole.toString());
await client.files.delete(joinedFile.id);
const dropped = await client.uploads.create({
  bytes: 1, filename: "no.jsonl", mime_type: "text/jsonl", purpose: "batch",
});
assert.equal((await client.uploads.cancel(dropped.id)).status, "cancelled");

// Create, poll, download, join by custom_id.
const created = await client.batches.create({
  input_file_id: input.id,
  endpoint: "/v1/chat/completions",
  completion_window: "24h",
  metadata: { team: "search" },
  output_expires_after: { anchor: "created_at", seconds: 3600 },
});
assert.equal(created.object, "batch");
const done = await until(created.id, "completed", "failed", "expired", "cancelled");
assert.equal(done.status, "completed", JSON.stringify(done));
assert.deepEqual(done.request_counts, { total: count + 1, completed: count, failed: 1 });
assert.deepEqual(done.metadata, { team: "search" });
const answers = new Map();
for (const text of (await (await client.files.content(done.output_file_id)).text()).split("\n")) {
  if (text) answers.set(JSON.parse(text).custom_id, JSON.parse(text).response.body);
}
const joined = lines.slice(0, count).map((text) => answers.get(JSON.parse(text).custom_id));
assert.ok(joined.every((body) => body.choices[0].message.content.length > 0));
const errors = (await (await client.files.content(done.error_file_id)).text()).trim().split("\n");
assert.equal(errors.length, 1);
assert.equal(JSON.parse(errors[0]).response.status_code, 400);
const output = await client.files.retrieve(done.output_file_id);
assert.equal(output.purpose, "batch_output");
assert.equal(output.expires_at, output.created_at + 3600);

// Cancel: one that waits, and one that is over, which is refused without being asked three times.
const waiting = await client.batches.create({
  input_file_id: streamed.id,
  endpoint: "/v1/chat/completions",
  completion_window: "24h",
  nightshift: { priority: -1, name: "waits" },
});
await client.batches.cancel(waiting.id).catch((error) => assert.equal(error.status, 409));
await until(waiting.id, "cancelled", "completed");
await assert.rejects(client.batches.cancel(created.id), (error) => {
  assert.ok(error instanceof OpenAI.ConflictError);
  assert.match(error.message, /Cannot cancel a batch with status 'completed'/);
  assert.match(error.requestID, /^req_/);
  return true;
});

// Refusals, in the library's own classes.
await assert.rejects(client.batches.retrieve("batch_000000000000"), OpenAI.NotFoundError);
await assert.rejects(client.files.retrieve("file-none"), OpenAI.NotFoundError);
await assert.rejects(
  client.batches.create({ input_file_id: input.id, endpoint: "/v1/none", completion_window: "24h" }),
  (error) => error instanceof OpenAI.BadRequestError && error.param === "endpoint",
);
const refused = await until(
  (await client.batches.create({
    input_file_id: "file-none",
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  })).id,
  "failed",
);
assert.equal(refused.errors.data[0].param, "file_id");

// Lists, page by page.
const batches = await collect(client.batches.list({ limit: 2 }));
assert.deepEqual(batches, [refused.id, waiting.id, created.id]);
const files = await collect(client.files.list({ limit: 1, purpose: "batch" }));
assert.deepEqual(files, [streamed.id, input.id]);
assert.deepEqual(await collect(client.models.list()), [model]);

// Delete.
assert.deepEqual({ ...(await client.files.delete(input.id)) }, { id: input.id, object: "file", deleted: true });
await assert.rejects(client.files.content(input.id), OpenAI.NotFoundError);
console.log(JSON.stringify({ answers: joined.length, batches: batches.length, files: files.length }));
