import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { ClusterWhatIf } from '../../answers/what-if.ts';
import { parameters, show } from '../location.ts';
import { AnswerAge, AskedState, CommandLine, isOld } from '../parts.tsx';
import { type Asked, useAnswer } from '../questions.ts';
import { ProposalFields } from './proposal-fields.tsx';
import { WhatIfTable } from './what-if-table.tsx';

/** Longest text of a proposal: the server reads 4 MiB. */
const CHARACTERS_MAX = 2_000_000;

const example = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: example, namespace: NAMESPACE}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
    - from: [{podSelector: {matchLabels: {app: web}}}]
`;

/** Text of the user's proposal: kept while another view is open. */
const text = signal('');
const problem = signal('');

interface AskedProposal {
  readonly asked: Asked<ClusterWhatIf>;
  readonly compute: (removed: string) => void;
  readonly clear: () => void;
  readonly removed: readonly string[];
}

/** Proposal of the user, and its effect once it is asked for. */
export function useProposal(namespace: string): AskedProposal {
  const [body, setBody] = useState<string>();
  const removed = (parameters.value['delete'] ?? '').split(/[\s,]+/).filter((name) => name !== '');
  const query = new URLSearchParams([['namespace', namespace], ...removed.map((name): [string, string] => ['delete', name])]);
  const asked = useAnswer<ClusterWhatIf>(body === undefined ? undefined : `whatif?${query}`, { body: body ?? '' });
  const compute = (names: string): void => {
    const isAskedAgain = body === text.value && names.trim() === (parameters.value['delete'] ?? '');
    if (isAskedAgain) asked.ask(); // the cluster may have changed since
    show({ ...parameters.value, delete: names.trim() });
    setBody(text.value);
  };
  return { asked, removed, compute, clear: () => setBody(undefined) };
}

/** Form for a proposal, and which connections it breaks and opens. Nothing is changed. */
export function PolicyWhatIf({ proposal: { asked, compute, clear, removed } }: { readonly proposal: AskedProposal }) {
  const { answer } = asked;
  return (
    <section aria-labelledby="what-if-title">
      <h2 id="what-if-title">What if</h2>
      <p>
        Which connections a change breaks and opens, before you apply it. The API server tries the objects as a dry run, and the agents report how much the connections are used. Nothing is
        changed.
      </p>
      <ProposalForm compute={compute} />
      <AskedState asked={asked} what="the effect" />
      {answer ? (
        <div class={isOld(asked) ? 'old' : ''}>
          <p class="quiet">
            <AnswerAge asked={asked} during="Computing …" before="Computed " />
          </p>
          {answer.missing.length > 0 ? (
            <div class="notice warn">
              <h2>Some objects could not be read, and the effect may be incomplete</h2>
              {answer.missing.map((line) => (
                <p key={line}>{line}</p>
              ))}
            </div>
          ) : null}
          <WhatIfTable view={answer} />
          {[...answer.remarks, ...answer.evidence].map((line) => (
            <p key={line} class="quiet">
              {line}
            </p>
          ))}
          <p>
            <button type="button" onClick={clear}>
              Clear the result
            </button>
          </p>
        </div>
      ) : null}
      <CommandLine words={['seinectl', 'whatif', '-f', 'FILE', ...removed.flatMap((name) => ['--delete', name])]} answer={answer} name="whatif" />
    </section>
  );
}

function ProposalForm({ compute }: Pick<AskedProposal, 'compute'>) {
  const { delete: asked = '' } = parameters.value;
  const [removed, setRemoved] = useState(asked);
  useEffect(() => setRemoved(asked), [asked]);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        compute(removed);
      }}
    >
      <ProposalFields text={text} removed={removed} onRemoved={setRemoved} />
      <div class="actions">
        <button type="submit" class="primary" disabled={text.value.trim() === '' && removed.trim() === ''}>
          Compute the effect
        </button>
        <div class="field file">
          <label for="proposal-file">or open a file</label>
          <input id="proposal-file" type="file" accept=".yaml,.yml,.json" onChange={(event) => void open(event.currentTarget.files)} />
        </div>
        {text.value === '' ? (
          <button
            type="button"
            onClick={() => {
              text.value = example.replace('NAMESPACE', parameters.value['namespace'] || 'default');
            }}
          >
            Insert an example
          </button>
        ) : null}
      </div>
      <p class="problem" role="status">
        {problem.value}
      </p>
    </form>
  );
}

async function open(files: FileList | null): Promise<void> {
  const [file] = files ?? [];
  if (!file) return;
  problem.value = file.size > CHARACTERS_MAX ? `${file.name} has ${file.size.toLocaleString('en')} bytes: at most ${CHARACTERS_MAX.toLocaleString('en')} are read` : '';
  if (problem.value !== '') return;
  try {
    text.value = await file.text();
  } catch {
    problem.value = `${file.name} cannot be read`;
  }
}
