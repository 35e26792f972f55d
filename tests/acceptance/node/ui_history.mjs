// What the AI SDK makes of the messages that a page sends: model messages, or what one of its
// providers sends to its vendor.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText } from 'ai';
import { answer } from './served.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
console.warn = () => {};

/** Return the model messages of one version, which first checks the messages if it can. */
const reader = (version) => async ({ messages }) => {
  const sdk = await import(version);
  const checked = await sdk.validateUIMessages({ messages });
  return { messages: await sdk.convertToModelMessages(checked) };
};

/** Return the body that a provider sends for the messages. */
const sender = (provider, model, options = {}) => async ({ messages }) => {
  const { convertToModelMessages } = await import('ai');
  let sent;
  const fetch = async (_, request) => {
    sent = JSON.parse(request.body);
    return new Response('{}', { status: 400 });
  };
  const vendor = provider({ apiKey: '-', baseURL: 'http://t', fetch });
  try {
    await generateText({
      model: vendor(model),
      messages: await convertToModelMessages(messages),
      maxRetries: 0,
      allowSystemInMessages: true,
      providerOptions: options,
    });
  } catch (error) {
    if (sent === undefined) throw error;
  }
  return sent;
};

await answer({
  ai5: reader('ai5'),
  ai6: reader('ai6'),
  ai7: reader('ai'),
  anthropic: sender(createAnthropic, 'claude-opus-4-5'),
  openai: sender(createOpenAI, 'gpt-5', { openai: { store: false } }),
  google: sender(createGoogleGenerativeAI, 'gemini-3-pro'),
});
