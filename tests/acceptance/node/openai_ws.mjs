// A conversation by `openai`'s `ResponsesWS`: each turn but the first sends only what is new.
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { answer } from './served.mjs';

const ENDS = ['response.completed', 'response.incomplete', 'response.failed', 'error'];

async function converse({ url, prompts }) {
  const client = new OpenAI({ apiKey: '-', baseURL: `${url}/v1` });
  const socket = new ResponsesWS(client);
  socket.on('error', () => {}); // it comes as an event, too
  const said = [];
  let previous;
  try {
    for (const input of prompts) {
      const end = nextEnd(socket);
      const known = previous && { previous_response_id: previous };
      socket.send({ type: 'response.create', model: 'm', store: false, input, ...known });
      const { type, status, error, response, text } = await end;
      said.push({ type, status, code: error?.code, text });
      previous = response?.id;
    }
  } finally {
    socket.close();
  }
  return { said };
}

/** Return the event that ends the next answer, and the text of those before it. */
function nextEnd(socket) {
  return new Promise((resolve, reject) => {
    let text = '';
    const take = (event) => {
      if (event.type === 'response.output_text.delta') text += event.delta;
      if (ENDS.includes(event.type)) {
        socket.off('event', take);
        resolve({ ...event, text });
      }
    };
    socket.on('event', take);
    socket.on('close', (code) => reject(new Error(`closed with ${code}`)));
  });
}

await answer({ converse });
