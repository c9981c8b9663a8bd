import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { PacketQuestion, TestView } from '../../answers/simulator.ts';
import { type Parameters, parameters, show } from '../location.ts';
import { AskedState, Badge, CommandLine, Field, Selection } from '../parts.tsx';
import { MatrixAnswer } from '../policy/policy-matrix.tsx';
import { count } from '../texts.ts';
import { FamilyPaths } from '../trace-view.tsx';
import { ProposalFields } from '../policy/proposal-fields.tsx';
import { WhatIfTable } from '../policy/what-if-table.tsx';
import { Editor } from './editor.tsx';
import { loadedObjects } from './loaded-objects.ts';
import { useSimulated } from './use-simulated.ts';

const command = ['seinectl', 'simulate', '-f', 'FILE'];

function packetOf({ from = '', to = '', port, family, established }: Parameters): PacketQuestion | undefined {
  if (from === '' || to === '') return undefined;
  return {
    ...{ from, to },
    ...(port && { port }),
    ...((family === 'ipv4' || family === 'ipv6') && { family }),
    ...(established === 'true' && { established: 'true' as const }),
  };
}

/** Path of a packet over the simulated nodes. */
export function SimulatedTrace() {
  const asked = parameters.value;
  const packet = packetOf(asked);
  const trace = useSimulated('trace', packet);
  const words = packet
    ? [packet.from, packet.to, ...(packet.port ? [packet.port] : []), ...(packet.family ? ['--family', packet.family] : []), ...(packet.established ? ['--established'] : [])]
    : ['FROM', 'TO'];
  return (
    <section aria-label="Trace">
      <PacketForm asked={asked} />
      <AskedState asked={trace} what="the path" />
      {trace.answer && trace.answer.exitCode !== 0 ? (
        <div class="notice bad" role="alert">
          <h2>The compiled flows and the objects do not agree</h2>
          <p>This is a bug of Seine: report it with these objects.</p>
        </div>
      ) : null}
      <div aria-live="polite">
        {trace.answer?.traces.map((each) => (
          <FamilyPaths key={each.family} trace={each} />
        ))}
      </div>
      <CommandLine words={[...command, 'trace', ...words]} answer={trace.answer} name="simulated-trace" />
    </section>
  );
}

function PacketForm({ asked }: { readonly asked: Parameters }) {
  const { podNames = [], serviceNames = [] } = loadedObjects.value?.summary ?? {};
  const [form, setForm] = useState<Parameters>(asked);
  useEffect(() => setForm(asked), [asked]);
  const set = (name: string) => (value: string) => setForm({ ...form, [name]: value });
  const value = (name: string): string => form[name] ?? '';
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        show({ ...form, view: 'simulator', do: 'trace' });
      }}
    >
      <Field id="from" label="From" value={value('from')} onInput={set('from')} names={podNames} hint="NAMESPACE/POD, node:NAME, outside or an address" />
      <Field
        id="to"
        label="To"
        value={value('to')}
        onInput={set('to')}
        names={[...serviceNames.map((name) => `service:${name}`), ...podNames]}
        hint="also service:NAMESPACE/NAME"
      />
      <Field id="port" label="Port" value={value('port')} onInput={set('port')} hint="80, 53/UDP or icmp" />
      <Selection
        id="family"
        label="Family"
        value={value('family')}
        options={{ '': 'all that both ends have', ipv4: 'IPv4', ipv6: 'IPv6' }}
        onSelect={set('family')}
      />
      <div class="actions">
        <button type="submit" class="primary" disabled={value('from') === '' || value('to') === ''}>
          Trace
        </button>
      </div>
    </form>
  );
}

/** Matrix of a namespace. */
export function SimulatedMatrix() {
  const asked = parameters.value;
  const { namespaces = [] } = loadedObjects.value?.summary ?? {};
  const { namespace = namespaces[0] ?? '', source = '', destination = '' } = asked;
  const matrix = useSimulated('matrix', namespace === '' ? undefined : { namespace });
  const options = Object.fromEntries(namespaces.map((name) => [name, name]));
  return (
    <section aria-label="Matrix">
      <div class="form">
        <Selection
          id="namespace"
          label="Namespace"
          value={namespace}
          options={options}
          onSelect={(value) => show({ ...asked, namespace: value, source: '', destination: '' })}
        />
      </div>
      <AskedState asked={matrix} what={`the policies of namespace ${namespace}`} />
      {matrix.answer ? (
        <MatrixAnswer
          matrix={matrix.answer}
          source={source}
          destination={destination}
          onSelect={(from, to) => show({ ...asked, view: 'simulator', do: 'matrix', namespace, source: from, destination: to })}
        />
      ) : null}
      <CommandLine words={[...command, 'matrix', '--from', `${namespace || 'NAMESPACE'}/*`]} answer={matrix.answer} name="simulated-matrix" />
    </section>
  );
}

const proposal = signal('');
const removed = signal('');

/** Effect of a change of the objects. */
export function SimulatedWhatIf() {
  const [question, setQuestion] = useState<{ readonly text: string; readonly removed: readonly string[] }>();
  const result = useSimulated('whatIf', question);
  const names = removed.value.split(/[\s,]+/).filter((name) => name !== '');
  return (
    <section aria-label="What if">
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          setQuestion({ text: proposal.value, removed: names });
        }}
      >
        <ProposalFields
          text={proposal}
          removed={removed.value}
          onRemoved={(value) => {
            removed.value = value;
          }}
        />
        <div class="actions">
          <button type="submit" class="primary" disabled={proposal.value.trim() === '' && names.length === 0}>
            Compute the effect
          </button>
        </div>
      </form>
      <AskedState asked={result} what="the effect" />
      {result.answer ? <WhatIfTable view={result.answer} /> : null}
      <CommandLine words={[...command, 'whatif', '-f', 'PROPOSAL', ...names.flatMap((name) => ['--delete', name])]} answer={result.answer} name="simulated-whatif" />
    </section>
  );
}

const cases = signal(`tests: seine.dev/v1
cases:
  - {from: shop/web, to: service:shop/db, expect: allow}
`);

/** Test cases. */
export function SimulatedTest() {
  const [question, setQuestion] = useState<{ readonly text: string }>();
  const result = useSimulated('test', question);
  return (
    <section aria-label="Test">
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          setQuestion({ text: cases.value });
        }}
      >
        <Editor
          id="cases"
          label="Test cases"
          rows={8}
          value={cases.value}
          onInput={(value) => {
            cases.value = value;
          }}
        />
        <div class="actions">
          <button type="submit" class="primary">
            Test
          </button>
        </div>
      </form>
      <AskedState asked={result} what="the test" />
      {result.answer ? <CaseList view={result.answer} /> : null}
      <CommandLine words={[...command, 'test', 'TESTS']} answer={result.answer} name="simulated-test" />
    </section>
  );
}

function CaseList({ view: { cases: results, coverage, rules } }: { readonly view: TestView }) {
  const passed = results.filter((each) => each.passed).length;
  return (
    <div aria-live="polite">
      <p>
        {passed.toLocaleString('en')} of {count(results.length, 'case')} as expected; {coverage} % of {count(rules, 'rule')} used.
      </p>
      <ul class="cases">
        {results.map(({ text, passed: isPassed, lines }, at) => (
          <li key={`${at} ${text}`}>
            <Badge tone={isPassed ? 'good' : 'bad'}>{isPassed ? 'as expected' : 'failed'}</Badge> {text}
            {lines.map((line) => (
              <p key={line} class="quiet">
                {line}
              </p>
            ))}
          </li>
        ))}
      </ul>
    </div>
  );
}
