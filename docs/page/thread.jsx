// A thread on AG-UI's client.
import { HttpAgent } from '@ag-ui/client';
import { useState } from 'react';
import { createRoot } from 'react-dom/client';
import { Call, Choice, Page, Reasoning } from './view.jsx';

const agent = new HttpAgent({ url: '/api/run' });

function Thread() {
  const [messages, setMessages] = useState([]);
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState();

  const run = async (message) => {
    agent.addMessage({ id: crypto.randomUUID(), ...message });
    setMessages([...agent.messages]);
    setError();
    setRunning(true);
    try {
      await agent.runAgent(undefined, {
        onMessagesChanged: ({ messages }) => setMessages([...messages]),
        onRunErrorEvent: ({ event }) => setError(event.message),
      });
    } catch (failure) {
      setError(failure.message);
    }
    setRunning(false);
  };

  const results = new Map();
  for (const { role, toolCallId, content } of messages)
    if (role === 'tool') results.set(toolCallId, content);

  const showCall = ({ id, function: { name, arguments: text } }, isLast) => {
    let input;
    try {
      input = JSON.parse(text);
    } catch {} // it has not arrived whole
    if (name !== 'choose') return <Call key={id} name={name} input={input} output={results.get(id)} />;
    const choose = (content) => run({ role: 'tool', toolCallId: id, content });
    return (
      <Choice
        key={id}
        options={input?.options}
        chosen={results.get(id)}
        choose={isLast && !isRunning && !error && choose}
      />
    );
  };

  const show = (message, number) => {
    const isLast = number === messages.length - 1;
    switch (message.role) {
      case 'reasoning':
        return <Reasoning key={message.id} text={message.content} isOpen={isLast && isRunning} />;
      case 'user':
      case 'assistant':
        return (
          <section key={message.id} className={message.role}>
            {message.content && <p>{message.content}</p>}
            {message.toolCalls?.map((call) => showCall(call, isLast))}
          </section>
        );
    }
  };

  return (
    <Page
      title="AG-UI"
      error={error}
      isRunning={isRunning}
      send={(content) => run({ role: 'user', content })}
      stop={() => agent.abortRun()}
    >
      {messages.map(show)}
    </Page>
  );
}

createRoot(document.getElementById('root')).render(<Thread />);
