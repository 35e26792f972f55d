/*
 * `@musistudio/llms`, the converter of claude-code-router: its server, asked without a socket.
 *
 * Entry point: the package's `Server` with a provider for each upstream.  Chat Completions go
 * through the transformer `openrouter`, without which usage is lost where two events come in one
 * read; `reasoning` and `deepseek` read `reasoning_content`, but drop the stop reason and the usage
 * behind it.  Jobs and answers are those of driver.py; the package is loaded from the folder that
 * STREAMNORM_PEERS_NODE names.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const upstream = process.argv[2];
const folder = `${process.env.STREAMNORM_PEERS_NODE}/node_modules/@musistudio/llms`;
const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
// Its ES module does not load in Node: it calls `require`.
const { default: Server } = createRequire(import.meta.url)(`${folder}/dist/cjs/server.cjs`);

const answers = process.stdout.write.bind(process.stdout);
// Its own output must not mix with the answers.
process.stdout.write = process.stderr.write.bind(process.stderr);

const PROVIDERS = {
  openai_chat: [`${upstream}/v1/chat/completions`, ["openrouter"]],
  openai_responses: [`${upstream}/v1/responses`, ["openai-responses"]],
  gemini: [`${upstream}/v1beta/models/`, ["gemini"]],
};
// What its route of Chat Completions writes is its own form between two transformers: without an
// end, and with another index of the choice for each part.
const PAIRS = Object.keys(PROVIDERS).map((source) => [source, "anthropic"]);

const providers = Object.entries(PROVIDERS).map(([name, [api_base_url, use]]) => ({
  name,
  api_base_url,
  api_key: "none",
  models: ["m"],
  transformer: { use },
}));
const server = new Server({
  initialConfig: { providers, PORT: "0", HOST: "127.0.0.1" },
  useJsonFile: false,
  useEnvFile: false,
  logger: false,
});
// The constructor registers the transformers behind a promise.
while (!server.llmService) await new Promise((resolve) => setTimeout(resolve, 10));
await server.start();
answers(`${JSON.stringify({ version, converts: PAIRS })}\n`);

async function ask({ source, model, request }) {
  const response = await server.app.inject({
    method: "POST",
    url: "/v1/messages",
    headers: { "anthropic-version": "2023-06-01" },
    payload: { ...request, model: `${source},${model ?? "m"}` },
  });
  return { status: response.statusCode, out: response.rawPayload };
}

function within(seconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  let answer;
  try {
    let least = Infinity;
    for (let round = 0; round < (job.rounds ?? 1); round++) {
      const begun = process.cpuUsage();
      const { status, out } = await within(60, ask(job));
      const spent = process.cpuUsage(begun);
      least = Math.min(least, (spent.user + spent.system) / 1e6);
      answer = { status, out: out.toString("base64"), error: null, cpu_s: least };
    }
  } catch (error) {
    answer = { status: 0, out: "", error: String(error).slice(0, 300), cpu_s: null };
  }
  answers(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
