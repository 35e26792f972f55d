// What `openai` makes of Chat Completions and of Responses, by its helpers and without.
import assert from 'node:assert';
import OpenAI from 'openai';
import { answer, fetchOf, parsed } from './served.mjs';

const CHAT = { model: 'm', messages: [], stream_options: { include_usage: true } };
const RESPONSES = { model: 'm', input: '-' };

function client(body) {
  return new OpenAI({ apiKey: '-', baseURL: 'http://t', maxRetries: 0, fetch: fetchOf(body) });
}

// Chat Completions

async function chat({ body }) {
  const said = { blocks: [], sources: [], finish: '', usage: {} };
  const calls = new Map();
  for await (const chunk of await client(body).chat.completions.create({ ...CHAT, stream: true })) {
    Object.assign(said, { id: chunk.id, model: chunk.model });
    if (chunk.usage) said.usage = chatUsage(chunk.usage);
    for (const { delta, finish_reason } of chunk.choices.filter(({ index }) => index === 0)) {
      grow(said.blocks, 'reasoning', delta.reasoning_content);
      grow(said.blocks, 'text', delta.content);
      grow(said.blocks, 'refusal', delta.refusal);
      for (const piece of delta.tool_calls ?? []) growCall(said.blocks, calls, piece);
      said.sources.push(...chatSources(delta));
      said.finish += finish_reason ?? '';
    }
  }
  for (const call of calls.values()) if (call.kind === 'call') call.input = parsed(call.input);
  return said;
}

function grow(blocks, kind, text) {
  if (!text) return;
  if (blocks.at(-1)?.kind === kind) blocks.at(-1).text += text;
  else blocks.push({ kind, text });
}

function growCall(blocks, calls, { index, id, type, extra_content, ...piece }) {
  if (!calls.has(index)) {
    calls.set(index, { kind: type === 'function' ? 'call' : 'custom', id, name: '', input: '' });
    blocks.push(calls.get(index));
  }
  const call = calls.get(index);
  const part = piece.function ?? piece.custom ?? {};
  call.name += part.name ?? '';
  call.input += part.arguments ?? part.input ?? '';
  call.signature ??= extra_content?.google?.thought_signature;
}

async function chatHelper({ body }) {
  const { id, model, choices, usage } = await client(body)
    .chat.completions.stream(CHAT)
    .finalChatCompletion();
  const { message, finish_reason: finish } = choices.find(({ index }) => index === 0);
  const blocks = [];
  grow(blocks, 'text', message.content);
  grow(blocks, 'refusal', message.refusal);
  for (const { id, function: called, extra_content } of message.tool_calls ?? []) {
    const signature = extra_content?.google?.thought_signature;
    const input = parsed(called.arguments);
    blocks.push({ kind: 'call', id, name: called.name, input, signature });
  }
  const sources = chatSources(message);
  return { id, model, blocks, sources, finish, usage: chatUsage(usage ?? {}) };
}

function chatSources({ annotations }) {
  return (annotations ?? []).map(({ url_citation: { url, title } }) => ({ url, title }));
}

function chatUsage(usage) {
  return {
    input: usage.prompt_tokens,
    output: usage.completion_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens,
    written: usage.prompt_tokens_details?.cache_write_tokens,
    reasoning: usage.completion_tokens_details?.reasoning_tokens,
  };
}

// Responses

/** Add up the deltas, and take from the end only what they do not tell. */
async function responses({ body }) {
  const items = new Map();
  let last;
  for await (const event of await client(body).responses.create({ ...RESPONSES, stream: true })) {
    last = event;
    const { type, output_index: index, delta, item } = event;
    if (type === 'response.output_item.added') items.set(index, { ...item, text: [] });
    else if (type === 'response.output_item.done') Object.assign(items.get(index), item);
    else if (/(text|refusal|arguments|input)\.delta$/.test(type)) {
      const { text } = items.get(index);
      const part = event.content_index ?? event.summary_index ?? 0;
      text[part] = (text[part] ?? '') + delta;
    }
  }
  return response(last.response, [...items.values()]);
}

async function responsesHelper({ body }) {
  const final = await client(body).responses.stream(RESPONSES).finalResponse();
  const said = response(final, final.output);
  const texts = said.blocks.filter(({ kind }) => kind === 'text');
  assert.strictEqual(final.output_text, texts.map(({ text }) => text).join(''));
  return said;
}

function response({ id, model, status, incomplete_details, usage }, items) {
  const blocks = items.flatMap(itemBlocks);
  const sources = blocks.flatMap(({ sources }) => sources ?? []);
  for (const block of blocks) delete block.sources;
  return {
    ...{ id, model, blocks, sources, finish: incomplete_details?.reason ?? status },
    usage: {
      input: usage.input_tokens,
      output: usage.output_tokens,
      cached: usage.input_tokens_details.cached_tokens,
      written: usage.input_tokens_details.cache_write_tokens,
      reasoning: usage.output_tokens_details.reasoning_tokens,
    },
  };
}

/** Return what an item says; `text` holds what its deltas added up to, if they were read. */
function itemBlocks({ text, ...item }) {
  switch (item.type) {
    case 'message':
      return item.content.map((part, number) => ({
        kind: part.type === 'refusal' ? 'refusal' : 'text',
        text: text ? (text[number] ?? '') : (part.text ?? part.refusal),
        sources: (part.annotations ?? [])
          .filter(({ type }) => type === 'url_citation')
          .map(({ url, title }) => ({ url, title })),
      }));
    case 'reasoning':
      return [
        {
          kind: 'reasoning',
          text: (text ?? item.summary.map((part) => part.text)).join('\n\n'),
          signature: item.encrypted_content,
        },
      ];
    case 'function_call':
      return [called('call', item, parsed(text?.join('') ?? item.arguments))];
    case 'custom_tool_call':
      return [called('custom', item, text?.join('') ?? item.input)];
    default:
      return []; // what only this dialect has
  }
}

function called(kind, { call_id: id, name }, input) {
  return { kind, id, name, input };
}

await answer({ chat, 'chat helper': chatHelper, responses, 'responses helper': responsesHelper });
