// What the AI SDK's `streamText` makes of every dialect, by its providers.
import assert from 'node:assert';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { jsonSchema, streamText, tool } from 'ai';
import { answer, fetchOf, parsed } from './served.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const reader = (provider) => async ({ body, tools }) => {
  const { fullStream } = streamText({
    model: provider({ apiKey: '-', baseURL: 'http://t', fetch: fetchOf(body) }),
    prompt: '-',
    maxRetries: 0,
    tools: Object.fromEntries(tools.map((name) => [name, tool({ inputSchema: jsonSchema({}) })])),
    // It tells what is encrypted where the server does not store it.
    providerOptions: { openai: { store: false } },
    onError: () => {}, // which comes as a part too
  });
  const said = { blocks: [], sources: [] };
  const open = new Map();
  for await (const part of fullStream) read(part, said, open);
  return said;
};

function read(part, said, open) {
  const key = `${part.type.split('-')[0]} ${part.id}`;
  switch (part.type) {
    case 'text-start':
    case 'reasoning-start':
      open.set(key, { kind: part.type.split('-')[0], text: '', ...proof(part) });
      said.blocks.push(open.get(key));
      break;
    case 'text-delta':
    case 'reasoning-delta':
      open.get(key).text += part.text;
      Object.assign(open.get(key), proof(part));
      break;
    case 'text-end':
    case 'reasoning-end':
      Object.assign(open.get(key), proof(part));
      break;
    case 'tool-input-start':
      open.set(part.id, '');
      break;
    case 'tool-input-delta':
      open.set(part.id, open.get(part.id) + part.delta);
      break;
    case 'tool-call':
      if (!part.providerExecuted) call(part, said, open);
      break;
    case 'source':
      said.sources.push({ url: part.url, title: part.title });
      break;
    case 'finish-step':
      Object.assign(said, { id: part.response.id, model: part.response.modelId });
      break;
    case 'finish':
      Object.assign(said, { finish: part.finishReason, usage: tokens(part.totalUsage) });
      break;
    case 'error':
      throw part.error;
  }
}

function call(part, said, open) {
  const { toolCallId: id, toolName: name, input } = part;
  const streamed = open.get(id);
  // A custom tool's input is no JSON, though it may look like some.
  if (open.has(id) && streamed !== input) assert.deepStrictEqual(parsed(streamed || '{}'), input);
  said.blocks.push({ kind: 'call', id, name, input, ...proof(part) });
}

/** Return the signature that came with a part, if one did. */
function proof({ providerMetadata: { anthropic, google, openai } = {} }) {
  const signature =
    anthropic?.signature ??
    anthropic?.redactedData ??
    google?.thoughtSignature ??
    openai?.reasoningEncryptedContent;
  return signature ? { signature } : {};
}

function tokens({ inputTokens, inputTokenDetails, outputTokens, outputTokenDetails }) {
  return {
    input: inputTokens,
    output: outputTokens,
    cached: inputTokenDetails.cacheReadTokens,
    written: inputTokenDetails.cacheWriteTokens,
    reasoning: outputTokenDetails.reasoningTokens,
  };
}

await answer({
  chat: reader((settings) => createOpenAI(settings).chat('m')),
  responses: reader((settings) => createOpenAI(settings).responses('m')),
  messages: reader((settings) => createAnthropic(settings)('m')),
  gemini: reader((settings) => createGoogleGenerativeAI(settings)('m')),
});
