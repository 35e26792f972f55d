// What both pages show.
import { useState } from 'react';

export const Reasoning = ({ text, isOpen }) => (
  <details className="reasoning" open={isOpen}>
    <summary>Reasoning</summary>
    {text}
  </details>
);

export const Call = ({ name, input, output }) => (
  <p className="call">
    {name}({JSON.stringify(input)}) {output === undefined ? '…' : `→ ${output}`}
  </p>
);

export const Choice = ({ options = [], chosen, choose }) => (
  <p className="choice">
    {options.map((option) => (
      <button
        key={option}
        className={option === chosen ? 'chosen' : ''}
        disabled={chosen !== undefined || !choose}
        onClick={() => choose(option)}
      >
        {option}
      </button>
    ))}
  </p>
);

export function Page({ title, children, error, isRunning, send, stop }) {
  const [text, setText] = useState('');
  const submit = (event) => {
    event.preventDefault();
    send(text);
    setText('');
  };
  return (
    <main>
      <h1>{title}</h1>
      {children}
      {error && <p role="alert">{error}</p>}
      <form onSubmit={submit}>
        <input value={text} onChange={(event) => setText(event.target.value)} autoFocus />
        {isRunning ? (
          <button type="button" onClick={stop}>Stop</button>
        ) : (
          <button disabled={!text}>Send</button>
        )}
      </form>
    </main>
  );
}
