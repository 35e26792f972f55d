// What `@anthropic-ai/sdk` makes of Messages, by its helper and without.
import Anthropic from '@anthropic-ai/sdk';
import { answer, fetchOf, parsed } from './served.mjs';

const REQUEST = { model: 'm', max_tokens: 1, messages: [] };

function client(body) {
  return new Anthropic({ apiKey: '-', baseURL: 'http://t', maxRetries: 0, fetch: fetchOf(body) });
}

const DELTAS = {
  text_delta: (block, { text }) => (block.text += text),
  thinking_delta: (block, { thinking }) => (block.thinking += thinking),
  signature_delta: (block, { signature }) => (block.signature = signature),
  input_json_delta: (block, { partial_json }) => (block.json = (block.json ?? '') + partial_json),
  citations_delta: (block, { citation }) => (block.citations ??= []).push(citation),
};

async function messages({ body }) {
  let message;
  for await (const event of await client(body).messages.create({ ...REQUEST, stream: true })) {
    if (event.type === 'message_start') message = { ...event.message, content: [] };
    if (event.type === 'content_block_start') message.content[event.index] = event.content_block;
    if (event.type === 'content_block_delta')
      DELTAS[event.delta.type]?.(message.content[event.index], event.delta);
    if (event.type === 'message_delta') {
      const usage = { ...message.usage, ...event.usage };
      Object.assign(message, event.delta, { usage });
    }
  }
  for (const block of message.content) if (block.json) block.input = parsed(block.json);
  return told(message);
}

async function messagesHelper({ body }) {
  return told(await client(body).messages.stream(REQUEST).finalMessage());
}

function told({ id, model, content, usage, stop_reason: finish, stop_sequence }) {
  return {
    ...{ id, model, finish, stop_sequence },
    blocks: content.flatMap(blocks),
    sources: content
      .flatMap(({ citations }) => citations ?? [])
      .filter(({ url }) => url)
      .map(({ url, title }) => ({ url, title })),
    usage: {
      input: usage.input_tokens,
      output: usage.output_tokens,
      cached: usage.cache_read_input_tokens,
      written: usage.cache_creation_input_tokens,
      reasoning: usage.output_tokens_details?.thinking_tokens,
    },
  };
}

function blocks(block) {
  switch (block.type) {
    case 'text':
      return [{ kind: 'text', text: block.text }];
    case 'thinking':
      return [{ kind: 'reasoning', text: block.thinking, signature: block.signature }];
    case 'redacted_thinking':
      return [{ kind: 'reasoning', text: '', signature: block.data }];
    case 'tool_use':
      return [{ kind: 'call', id: block.id, name: block.name, input: block.input }];
    default:
      return []; // what only this dialect has
  }
}

await answer({ messages, 'messages helper': messagesHelper });
