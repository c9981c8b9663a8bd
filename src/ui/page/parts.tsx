import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { NodesGroup } from '../answers/cluster-now.ts';
import type { Asked } from './questions.ts';
import { addressOf, type Parameters, show } from './location.ts';
import { commandFor, shownSource } from './source.ts';
import { commandText, count, duration } from './texts.ts';

export type BadgeTone = 'good' | 'bad' | 'warn' | 'quiet';

/** A word with a shape: its colour is never the only sign. */
export function Badge({ tone, children }: { readonly tone: BadgeTone; readonly children: ComponentChildren }) {
  const shape = { good: '✓', bad: '✕', warn: '!', quiet: '·' }[tone];
  return (
    <span class={`badge ${tone}`}>
      <span aria-hidden="true">{shape}</span> {children}
    </span>
  );
}

/** Text of an agent, whose commands are between backticks. */
export function Sentence({ text }: { readonly text: string }) {
  return <>{text.split('`').map((part, at) => (at % 2 === 1 ? <code key={`${at} ${part}`}>{part}</code> : part))}</>;
}

/** Link to another view, without loading the page again. */
export function ViewLink({ to, children }: { readonly to: Parameters; readonly children: ComponentChildren }) {
  return (
    <a
      href={addressOf(to)}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        show(to);
      }}
    >
      {children}
    </a>
  );
}

/** Command of a view, to be copied, and its answer, to be saved. */
export function CommandLine({ words: asked, answer, name }: { readonly words: readonly string[]; readonly answer: unknown; readonly name: string }) {
  const words = commandFor(shownSource.value, asked);
  const text = words && commandText(words);
  const [copied, setCopied] = useState('');
  const copy = (): void => {
    navigator.clipboard.writeText(text ?? '').then(
      () => setCopied('Copied'),
      () => setCopied('The browser does not allow copying'),
    );
  };
  return (
    <div class="command">
      {text === undefined ? (
        <span>No command prints this of a bundle.</span>
      ) : (
        <>
          <code>{text}</code>
          <button type="button" onClick={copy}>
            Copy
          </button>
        </>
      )}
      <button type="button" disabled={answer === undefined} onClick={() => save(answer, name)}>
        Save JSON
      </button>
      <span role="status">{copied}</span>
    </div>
  );
}

function save(answer: unknown, name: string): void {
  const url = URL.createObjectURL(new Blob([JSON.stringify(answer, undefined, 2)], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `seine-${name}.json`;
  link.click();
  URL.revokeObjectURL(url);
}

const failureTitles = {
  forbidden: 'You may not see this',
  invalid: 'This cannot be answered',
  unavailable: 'No answer',
  absent: 'The bundle has no data for this view',
} as const;

/** State of a question that has no new answer: loading, refused, invalid, or old. */
export function AskedState<T>({ asked, what }: { readonly asked: Asked<T>; readonly what: string }) {
  const { answer, atMs, stale, failure, isLoading } = asked;
  if (failure?.kind === 'forbidden')
    return (
      <div class="notice bad" role="alert">
        <h2>You may not see {what}</h2>
        <p>{failure.message}</p>
        <p>The page has the rights of your kubeconfig. Ask the cluster’s administrator for the right that is named above.</p>
      </div>
    );
  if (failure)
    return (
      <div class={`notice ${failure.kind === 'unavailable' ? 'bad' : 'warn'}`} role="alert">
        <h2>{failureTitles[failure.kind]}</h2>
        <p>{failure.message}</p>
        {answer === undefined ? null : <p>The last answer is below{atMs === undefined ? '' : `, ${duration((Date.now() - atMs) / 1_000)} old`}.</p>}
        <button type="button" onClick={asked.ask}>
          Try again
        </button>
      </div>
    );
  if (stale !== undefined && atMs !== undefined)
    return (
      <div class="notice warn" role="alert">
        <h2>This is {duration((Date.now() - atMs) / 1_000)} old</h2>
        <p>{stale}</p>
      </div>
    );
  if (answer === undefined && isLoading)
    return (
      <p class="loading" role="status">
        Loading {what} …
      </p>
    );
  return null;
}

/** Reports whether an answer is old and is shown greyed. */
export function isOld<T>({ stale, failure, answer }: Asked<T>): boolean {
  return answer !== undefined && (stale !== undefined || failure !== undefined);
}

interface AnswerAgeProps<T> {
  readonly asked: Asked<T>;
  /** Text while a new answer is computed. */
  readonly during: string;
  /** Text in front of the age. */
  readonly before: string;
}

/** Age of an answer. */
export function AnswerAge<T>({ asked: { atMs, isLoading }, during, before }: AnswerAgeProps<T>) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((value) => value + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const age = atMs === undefined ? '' : `${before}${duration(Math.max(0, (Date.now() - atMs) / 1_000))} ago`;
  return <span>{isLoading ? during : age}</span>;
}

/** Age of an answer, and a button for a new one. */
export function Freshness<T>({ asked }: { readonly asked: Asked<T> }) {
  return (
    <p class="freshness">
      <AnswerAge asked={asked} during="Asking …" before="" />
      <button type="button" onClick={asked.ask} disabled={asked.isLoading}>
        Refresh
      </button>
    </p>
  );
}

/** Names of nodes, the first of many. */
export function NodeNames({ nodes, total }: { readonly nodes: readonly string[]; readonly total: number }) {
  const shown = nodes.slice(0, 5);
  const more = total - shown.length;
  return (
    <span class="names">
      {count(total, 'node')}:{' '}
      {shown.map((node, at) => (
        <span key={node}>
          {at > 0 ? ', ' : ''}
          <ViewLink to={{ view: 'explain', kind: 'node', name: node }}>{node}</ViewLink>
        </span>
      ))}
      {more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}
    </span>
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly names?: readonly string[];
  readonly hint?: string;
  readonly id: string;
}

/** Text field with suggestions. */
export function Field({ label, value, onInput, names, hint, id }: FieldProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        value={value}
        autocomplete="off"
        spellcheck={false}
        list={names && names.length > 0 ? `${id}-names` : undefined}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {hint === undefined ? null : <small id={`${id}-hint`}>{hint}</small>}
      {names && names.length > 0 ? (
        <datalist id={`${id}-names`}>
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      ) : null}
    </div>
  );
}

interface SelectionProps {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  /** Texts by value. */
  readonly options: Readonly<Record<string, string>>;
  readonly onSelect: (value: string) => void;
}

/** List of which one value is selected. */
export function Selection({ id, label, value, options, onSelect }: SelectionProps) {
  return (
    <div class="field short">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onSelect(event.currentTarget.value)}>
        {Object.entries(options).map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

/** Agents without an answer, by reason. */
export function Gaps({ title, silent }: { readonly title: string; readonly silent: readonly NodesGroup[] }) {
  if (silent.length === 0) return null;
  return (
    <div class="notice warn">
      <h2>{title}</h2>
      <ul>
        {silent.map(({ text, nodes, count: total }) => (
          <li key={text}>
            {text} <NodeNames nodes={nodes} total={total} />
          </li>
        ))}
      </ul>
    </div>
  );
}
