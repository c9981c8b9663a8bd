import { useEffect, useState } from 'preact/hooks';
import type { Explained, FormNames } from '../answers/explained.ts';
import { parameters, show } from './location.ts';
import { AskedState, Badge, CommandLine, Field, Freshness, isOld, ViewLink } from './parts.tsx';
import { useAnswer } from './questions.ts';

const kinds = { pod: 'Pod', service: 'Service', node: 'Node' } as const;
type ExplainedKind = keyof typeof kinds;

function isKind(text: string): text is ExplainedKind {
  return Object.hasOwn(kinds, text);
}

/** What an agent knows about a pod, a Service or a node. */
export function ExplainView() {
  const { kind: asked = 'pod', name = '' } = parameters.value;
  const kind = isKind(asked) ? asked : 'pod';
  const explained = useAnswer<Explained>(name === '' ? undefined : `explain?${new URLSearchParams({ kind, name })}`);
  return (
    <section aria-labelledby="explain-title">
      <div class="title">
        <h1 id="explain-title">Pod, Service, Node</h1>
        {explained.answer ? <Freshness asked={explained} /> : null}
      </div>
      <p>How Seine serves it, from the agent of its node.</p>
      <ExplainForm kind={kind} name={name} />
      <AskedState asked={explained} what={`${kinds[kind]} ${name}`} />
      {explained.answer ? (
        <div class={isOld(explained) ? 'old' : ''}>
          <Explanation explained={explained.answer} kind={kind} />
        </div>
      ) : null}
      <CommandLine words={commandOf(kind, name)} answer={explained.answer} name={kind} />
    </section>
  );
}

function commandOf(kind: ExplainedKind, name: string): string[] {
  if (kind === 'node') return ['seinectl', 'cluster', 'status', '-o', 'wide'];
  return ['seinectl', 'explain', kind, name || 'NAMESPACE/NAME'];
}

function ExplainForm({ kind, name }: { readonly kind: ExplainedKind; readonly name: string }) {
  const [form, setForm] = useState({ kind, name });
  useEffect(() => setForm({ kind, name }), [kind, name]);
  const names = useAnswer<FormNames>(`names?kind=${form.kind}`).answer?.names;
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        show({ view: 'explain', kind: form.kind, name: form.name.trim() });
      }}
    >
      <div class="field">
        <label for="kind">Kind</label>
        <select
          id="kind"
          value={form.kind}
          onChange={(event) => {
            const { value } = event.currentTarget;
            if (isKind(value)) setForm({ kind: value, name: '' });
          }}
        >
          {Object.entries(kinds).map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      </div>
      <Field
        id="name"
        label="Name"
        value={form.name}
        onInput={(value) => setForm({ ...form, name: value })}
        {...(names && { names })}
        hint={form.kind === 'node' ? 'NAME' : 'NAMESPACE/NAME'}
      />
      <button type="submit" class="primary" disabled={form.name.trim() === ''}>
        Explain
      </button>
    </form>
  );
}

function Explanation({ explained: { name, node, isFine, lines, policies }, kind }: { readonly explained: Explained; readonly kind: ExplainedKind }) {
  return (
    <article class="card">
      <h2>
        {name} <Badge tone={isFine ? 'good' : 'bad'}>{isFine ? 'no problems' : 'problems'}</Badge>
      </h2>
      <p class="quiet">
        {kind === 'node' ? null : (
          <>
            Answered by the agent of <ViewLink to={{ view: 'explain', kind: 'node', name: node }}>{node}</ViewLink>.{' '}
          </>
        )}
        <ViewLink to={{ view: 'timeline', kind, name }}>What happened to it</ViewLink>
        {kind === 'pod' ? (
          <>
            {' · '}
            <ViewLink to={{ view: 'trace', from: name }}>Trace a packet from it</ViewLink>
          </>
        ) : null}
        {kind === 'service' ? (
          <>
            {' · '}
            <ViewLink to={{ view: 'trace', to: `service:${name}` }}>Trace a packet to it</ViewLink>
          </>
        ) : null}
      </p>
      {policies ? (
        <dl class="verdicts">
          {policies.map(({ direction, text, by }) => (
            <div key={direction}>
              <dt>{direction}</dt>
              <dd>
                {text}
                {by.length > 0 ? ` by ${by.join(', ')}` : ''}
              </dd>
            </div>
          ))}
        </dl>
      ) : null}
      <ul class="lines">
        {lines.map((line) => (
          <Line key={line} line={line} />
        ))}
      </ul>
    </article>
  );
}

/** A line of the agent: `!` marks a problem, spaces a part of the line above. */
function Line({ line }: { readonly line: string }) {
  const depth = Math.min(3, Math.floor((line.length - line.trimStart().length) / 2));
  const text = line.trim();
  const isProblem = text.startsWith('!');
  return (
    <li class={`depth-${depth} ${isProblem ? 'problem' : ''}`}>
      {isProblem ? <Badge tone="bad">problem</Badge> : null}
      {isProblem ? ` ${text.slice(1).trim()}` : text}
    </li>
  );
}
