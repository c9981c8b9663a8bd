import { useEffect, useState } from 'preact/hooks';
import type { ClusterNow, NodesGroup, ProblemGroup, ReasonDrops } from '../answers/cluster-now.ts';
import { AskedState, Badge, CommandLine, Freshness, isOld, NodeNames, Sentence, type BadgeTone } from './parts.tsx';
import { useAnswer } from './questions.ts';
import { count, digits, duration } from './texts.ts';

const SMALL_CLUSTER = 100;
const SMALL_REFRESH_MS = 15_000;
const LARGE_REFRESH_MS = 60_000;

/** Readiness, problems and drops of all nodes. */
export function NowView() {
  const [isLarge, setIsLarge] = useState(false);
  const asked = useAnswer<ClusterNow>('now', { everyMs: isLarge ? LARGE_REFRESH_MS : SMALL_REFRESH_MS });
  const { answer } = asked;
  useEffect(() => setIsLarge((answer?.agents ?? 0) > SMALL_CLUSTER), [answer?.agents]);
  return (
    <section aria-labelledby="now-title">
      <div class="title">
        <h1 id="now-title">Now</h1>
        <Freshness asked={asked} />
      </div>
      <AskedState asked={asked} what="the state of the cluster" />
      {answer ? (
        <div class={isOld(asked) ? 'old' : ''}>
          <Summary now={answer} />
          <Gaps now={answer} />
          <Problems now={answer} />
          <Drops drops={answer.drops} />
          <Versions now={answer} />
        </div>
      ) : null}
      <CommandLine words={['seinectl', 'cluster', 'status']} answer={answer} name="now" />
    </section>
  );
}

function Summary({ now }: { readonly now: ClusterNow }) {
  const { agents, answered, ready, problems, notReady, oldestCheckSeconds } = now;
  const troubled = problems.reduce((sum, { count: nodes }) => sum + nodes, 0);
  return (
    <ul class="figures">
      <Figure label="Agents ready" value={`${ready} of ${agents}`} tone={ready === agents ? 'good' : notReady.length > 0 ? 'bad' : 'warn'} />
      <Figure label="Agents that answered" value={`${answered} of ${agents}`} tone={answered === agents ? 'good' : 'warn'} />
      <Figure label="Kinds of problems" value={String(problems.length)} tone={problems.length === 0 ? 'good' : 'bad'} note={troubled > 0 ? `on ${count(troubled, 'node')}` : ''} />
      <Figure label="Oldest check" value={oldestCheckSeconds === null ? 'none' : duration(oldestCheckSeconds)} tone={now.overdue.length > 0 ? 'warn' : 'good'} note="age, of all periodic checks" />
    </ul>
  );
}

interface FigureProps {
  readonly label: string;
  readonly value: string;
  readonly tone: BadgeTone;
  readonly note?: string;
}

function Figure({ label, value, tone, note }: FigureProps) {
  return (
    <li class={`figure ${tone}`}>
      <span class="label">{label}</span>
      <strong>{value}</strong>
      {note ? <span class="note">{note}</span> : null}
    </li>
  );
}

/** Agents about which nothing is known: an incomplete answer must not look complete. */
function Gaps({ now: { silent, withoutAgent, agents, answered } }: { readonly now: ClusterNow }) {
  if (silent.length === 0 && withoutAgent !== null && withoutAgent.length === 0) return null;
  return (
    <div class="notice warn">
      <h2>
        {answered === agents ? 'Not every node is known' : `${count(agents - answered, 'agent')} of ${agents.toLocaleString('en')} did not answer`}
      </h2>
      <ul>
        {silent.map((group) => (
          <Group key={group.text} group={group} />
        ))}
        {withoutAgent === null ? <li>Whether nodes lack an agent is not known: you may not list nodes.</li> : null}
        {withoutAgent !== null && withoutAgent.length > 0 ? (
          <li>
            No agent’s pod: <NodeNames nodes={withoutAgent} total={withoutAgent.length} />
          </li>
        ) : null}
      </ul>
    </div>
  );
}

function Group({ group: { text, nodes, count: total } }: { readonly group: NodesGroup }) {
  return (
    <li>
      {text} <NodeNames nodes={nodes} total={total} />
    </li>
  );
}

function Problems({ now: { problems, notReady, overdue } }: { readonly now: ClusterNow }) {
  const isFine = problems.length + notReady.length + overdue.length === 0;
  return (
    <>
      <h2>Problems</h2>
      {isFine ? (
        <p>
          <Badge tone="good">No problems</Badge> on the nodes that answered.
        </p>
      ) : (
        <ul class="cards">
          {notReady.map((group) => (
            <li key={group.text} class="card">
              <Badge tone="bad">not ready</Badge>
              <p>{group.text}</p>
              <NodeNames nodes={group.nodes} total={group.count} />
            </li>
          ))}
          {problems.map((problem) => (
            <Problem key={problem.text} problem={problem} />
          ))}
          {overdue.map((group) => (
            <li key={group.text} class="card">
              <Badge tone="warn">checks overdue</Badge>
              <p>{group.text}</p>
              <NodeNames nodes={group.nodes} total={group.count} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Problem({ problem }: { readonly problem: ProblemGroup }) {
  return (
    <li class="card">
      <Badge tone="bad">{problem.text}</Badge>
      {problem.messages.map((message) => (
        <p key={message}>{message}</p>
      ))}
      {problem.remedy === undefined ? null : (
        <p class="remedy">
          <strong>What to do:</strong> <Sentence text={problem.remedy} />
        </p>
      )}
      <NodeNames nodes={problem.nodes} total={problem.count} />
    </li>
  );
}

function Drops({ drops }: { readonly drops: readonly ReasonDrops[] }) {
  return (
    <>
      <h2>Dropped packets by reason</h2>
      {drops.length === 0 ? (
        <p>No packet was dropped, or no agent that answered counts them.</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1)
        <div class="scroll" tabindex={0} role="region" aria-label="Dropped packets by reason">
          <table>
            <thead>
              <tr>
                <th scope="col">Reason</th>
                <th scope="col" class="number">
                  Packets
                </th>
                <th scope="col" class="number">
                  Since last refresh
                </th>
                <th scope="col">Meaning, cause, remedy</th>
              </tr>
            </thead>
            <tbody>
              {drops.map((drop) => (
                <tr key={drop.name}>
                  <th scope="row">
                    <code>{drop.name}</code>
                  </th>
                  <td class="number">{digits(drop.packets)}</td>
                  <td class="number">{drop.recent === null ? '–' : digits(drop.recent)}</td>
                  <td>
                    <details>
                      <summary>{drop.message}</summary>
                      <p>
                        <strong>Usual cause:</strong> {drop.cause}
                      </p>
                      <p>
                        <strong>What to do:</strong> <Sentence text={drop.remedy} />
                      </p>
                      <NodeNames nodes={drop.nodes} total={drop.nodes.length} />
                    </details>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Versions({ now: { groups } }: { readonly now: ClusterNow }) {
  if (groups.length === 0) return null;
  return (
    <>
      <h2>Versions and modes</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1) */}
      <div class="scroll" tabindex={0} role="region" aria-label="Versions and modes">
        <table>
          <thead>
            <tr>
              {['Pool', 'Nodes', 'Seine', 'Open vSwitch', 'Data path', 'Policies'].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {groups.map(({ pool, seine, ovs, dataPath, policies, count: nodes }) => (
              <tr key={`${pool} ${seine} ${ovs} ${dataPath} ${policies}`}>
                <th scope="row">{pool}</th>
                <td>{nodes.toLocaleString('en')}</td>
                <td>{seine}</td>
                <td>{ovs}</td>
                <td>{dataPath}</td>
                <td>{policies}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
