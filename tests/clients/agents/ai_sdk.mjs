// A task with the AI SDK: node ai_sdk.mjs DIALECT URL PROMPT [store]
// Prints one line of JSON: the text of the last step, and the errors.
import fs from 'node:fs';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { jsonSchema, stepCountIs, streamText, tool } from 'ai';

const [dialect, url, prompt, store] = process.argv.slice(2);
const apiKey = 'sk-dummy';
const models = {
  openai_chat: () =>
    createOpenAICompatible({ name: 'gateway', baseURL: `${url}/v1`, apiKey, includeUsage: true })('m'),
  anthropic: () => createAnthropic({ baseURL: `${url}/v1`, apiKey })('claude-sonnet-4-5'),
  openai_responses: () => createOpenAI({ baseURL: `${url}/v1`, apiKey })('m'),
  gemini: () => createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey })('gemini-3-pro-preview'),
};
const properties = { path: { type: 'string' } };
const read_file = tool({
  description: 'Read a file.',
  inputSchema: jsonSchema({ type: 'object', properties, required: ['path'], additionalProperties: false }),
  execute: async ({ path }) => fs.readFileSync(path, path.endsWith('.png') ? 'base64' : 'utf8'),
  toModelOutput: ({ input, output }) =>
    input.path.endsWith('.png')
      ? { type: 'content', value: [{ type: 'image-data', data: output, mediaType: 'image/png' }] }
      : { type: 'text', value: output },
});

const errors = [];
const result = streamText({
  model: models[dialect](),
  prompt,
  tools: { read_file },
  stopWhen: stepCountIs(8),
  providerOptions: { openai: { store: store === 'store' } },
  onError: ({ error }) => errors.push(String(error?.message ?? error)),
});
let answer = '';
try {
  for await (const part of result.fullStream) {
    if (part.type === 'start-step') answer = '';
    if (part.type === 'text-delta') answer += part.text;
    if (['tool-error', 'tool-input-error', 'abort'].includes(part.type)) errors.push(part.type);
  }
  const reason = await result.finishReason;
  if (reason !== 'stop') errors.push(`finish reason ${reason}`);
} catch (error) {
  errors.push(String(error?.message ?? error));
}
console.log(JSON.stringify({ answer, errors }));
