import { useEffect, useState } from 'preact/hooks';
import type { FormNames } from '../../answers/explained.ts';
import type { ReachMatrix } from '../../answers/policy-matrix.ts';
import { CellUseCard } from './cell-use.tsx';
import { parameters, show } from '../location.ts';
import { AskedState, CommandLine, Field, Freshness, isOld } from '../parts.tsx';
import { MatrixAnswer } from './policy-matrix.tsx';
import { PolicyWhatIf, useProposal } from './policy-what-if.tsx';
import { useAnswer } from '../questions.ts';

/** Connections that policies allow, between the workloads of a namespace and others. */
export function PolicyView() {
  const { namespace = '', source = '', destination = '' } = parameters.value;
  const asked = useAnswer<ReachMatrix>(namespace === '' ? undefined : `policy?${new URLSearchParams({ namespace })}`);
  const { answer } = asked;
  const proposal = useProposal(namespace);
  return (
    <section aria-labelledby="policy-title">
      <div class="title">
        <h1 id="policy-title">Policy</h1>
        {answer ? <Freshness asked={asked} /> : null}
      </div>
      <p>What the policies in the API server allow: from the row to the column. A cell shows the rules that decide, and how much its connections were used.</p>
      <NamespaceForm namespace={namespace} />
      <AskedState asked={asked} what={`the policies of namespace ${namespace}`} />
      {answer ? (
        <div class={isOld(asked) ? 'old' : ''}>
          <MatrixAnswer
            matrix={answer}
            source={source}
            destination={destination}
            marks={proposal.asked.answer?.marks}
            onSelect={(from, to) => show({ ...parameters.value, view: 'policy', namespace, source: from, destination: to })}
          >
            <CellUseCard namespace={namespace} source={source} destination={destination} />
          </MatrixAnswer>
        </div>
      ) : null}
      <CommandLine words={['seinectl', 'policy', 'reach', '--from', `${namespace || 'NAMESPACE'}/*`]} answer={answer} name="policy" />
      <PolicyWhatIf proposal={proposal} />
    </section>
  );
}

function NamespaceForm({ namespace }: { readonly namespace: string }) {
  const names = useAnswer<FormNames>('names?kind=namespace').answer?.names;
  const [value, setValue] = useState(namespace);
  useEffect(() => setValue(namespace), [namespace]);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        show({ view: 'policy', namespace: value.trim() });
      }}
    >
      <Field id="namespace" label="Namespace" value={value} onInput={setValue} {...(names && { names })} />
      <button type="submit" class="primary" disabled={value.trim() === ''}>
        Show
      </button>
    </form>
  );
}

