// A chat on `useChat` of the AI SDK.
import { useChat } from '@ai-sdk/react';
import { lastAssistantMessageIsCompleteWithToolCalls } from 'ai';
import { createRoot } from 'react-dom/client';
import { Call, Choice, Page, Reasoning } from './view.jsx';

function Chat() {
  // It posts to /api/chat.
  const { messages, sendMessage, addToolOutput, stop, status, error } = useChat({
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
  });
  const isRunning = status === 'submitted' || status === 'streaming';

  const show = (part, key) => {
    switch (part.type) {
      case 'text':
        return <p key={key}>{part.text}</p>;
      case 'reasoning':
        return <Reasoning key={key} text={part.text} isOpen={part.state === 'streaming'} />;
      case 'tool-choose': {
        const choose = (output) =>
          addToolOutput({ tool: 'choose', toolCallId: part.toolCallId, output });
        return (
          <Choice
            key={key}
            options={part.input?.options}
            chosen={part.output}
            choose={part.state === 'input-available' && !isRunning && choose}
          />
        );
      }
      case 'tool-get_weather':
        return (
          <Call
            key={key}
            name="get_weather"
            input={part.input}
            output={part.output ?? part.errorText}
          />
        );
    }
  };

  return (
    <Page
      title="useChat"
      error={error?.message}
      isRunning={isRunning}
      send={(text) => sendMessage({ text })}
      stop={stop}
    >
      {messages.map(({ id, role, parts }) => (
        <section key={id} className={role}>
          {parts.map(show)}
        </section>
      ))}
    </Page>
  );
}

createRoot(document.getElementById('root')).render(<Chat />);
