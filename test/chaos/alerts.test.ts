import { expect, it } from 'vitest';
import { firing, readAlerts, scrapeOf } from './alerts.ts';
import { Expression } from './promql.ts';

const metrics = `# TYPE seine_agent_problems gauge
seine_agent_problems{kind="agent.ready"} 1
seine_agent_problems{kind="dns",about="a \\"b\\""} 2
seine_agent_ready 0
seine_agent_health_check_age_seconds{check="cni"} 9
seine_agent_health_check_age_seconds{check="journal"} 3
seine_agent_health_check_deadline_seconds{check="cni"} 8
seine_agent_health_check_deadline_seconds{check="journal"} 8
`;

function firingAlerts(text: string, ...looks: readonly string[]): readonly string[] {
  const expression = new Expression(text);
  const wanted = new Set(expression.metrics);
  const scrapes = looks.map((look, index) => scrapeOf(index * 1_000, look, wanted));
  return firing([{ name: 'A', expression }], scrapes).map((alert) => alert.description);
}

it('evaluates in one scrape which alerts are true, with their labels', () => {
  expect(firingAlerts('seine_agent_ready == 0', metrics)).toEqual(['A']);
  expect(firingAlerts('seine_agent_problems{kind!~"agent.*|object"} > 0', metrics)).toEqual(['A about=a \\"b\\",kind=dns']);
  expect(firingAlerts('seine_agent_problems{kind="agent.ready"} > 1.5e9', metrics)).toEqual([]);
  expect(firingAlerts('seine_agent_health_check_age_seconds > seine_agent_health_check_deadline_seconds', metrics)).toEqual([
    'A check=cni',
  ]);
  expect(firingAlerts('seine_agent_not_there == 0', metrics)).toEqual([]);
  expect(firingAlerts('up{job="seine-agent"} == 0', metrics)).toEqual([]);
  expect(firingAlerts('up{job="seine-agent"} == 0', metrics, '')).toEqual(['A']);
});

it('joins vectors: and, or, unless, by all labels or by some', () => {
  const text = 'a{kind="x"} 0\na{kind="y"} 0\nb{kind="x"} 1\nb{kind="y"} 0\nc 1\n';
  expect(firingAlerts('a == 0 and b == 1', text)).toEqual(['A kind=x']);
  expect(firingAlerts('a == 0 unless b == 1', text)).toEqual(['A kind=y']);
  expect(firingAlerts('(a == 0 and b == 1) or b{kind="y"} < 1', text)).toEqual(['A kind=x', 'A kind=y']);
  expect(firingAlerts('a == 0 unless on (instance) c == 1', text)).toEqual([]);
  expect(firingAlerts('a{kind="x"} / on (instance) group_left () sum by (instance) (b) < 0.1', text)).toEqual(['A kind=x']);
  expect(firingAlerts('sum by (instance) (b{kind="x"}) / sum by (instance) (b) > 0.9', text)).toEqual(['A']);
  expect(firingAlerts('count(count by (kind) (a)) > 1', text)).toEqual(['A']);
});

it('computes increases over scrapes, also if a process restarted, and the number of resets', () => {
  const drift = 'increase(d[1h]) > 0 unless on (instance) increase(n[1h]) > 0';
  expect(firingAlerts(drift, 'd{part="a"} 4\nd{part="b"} 0\nn 1', 'd{part="a"} 5\nd{part="b"} 0\nn 1')).toEqual(['A part=a']);
  expect(firingAlerts(drift, 'd 4\nn 1', 'd 5\nn 2')).toEqual([]);
  expect(firingAlerts('increase(d[1h]) > 2', 'd 9', 'd 3')).toEqual(['A']);
  expect(firingAlerts('rate(d[5m]) > 0.9', 'd 0', 'd 1', 'd 2')).toEqual(['A']);
  expect(firingAlerts('rate(d[5m]) > 1.1', 'd 0', 'd 1', 'd 2')).toEqual([]);
  expect(firingAlerts('changes(d[1h]) > 1', 'd 1', 'd 2', 'd 2', 'd 1')).toEqual(['A']);
  expect(firingAlerts('increase(d[1h]) > 0', 'd 1')).toEqual([]);
});

it('computes quantiles of histograms', () => {
  const buckets = (...counts: readonly number[]): string =>
    counts.map((count, index) => `l_bucket{le="${['1', '2', '+Inf'][index]}"} ${count}`).join('\n');
  const expression = (least: string): string => `histogram_quantile(0.5, sum by (instance, le) (rate(l_bucket[5m]))) > ${least}`;
  expect(firingAlerts(expression('1.4'), buckets(0, 0, 0), buckets(0, 10, 10))).toEqual(['A']);
  expect(firingAlerts(expression('1.6'), buckets(0, 0, 0), buckets(0, 10, 10))).toEqual([]);
  expect(firingAlerts(expression('1.9'), buckets(0, 0, 0), buckets(0, 0, 10))).toEqual(['A']);
  expect(firingAlerts(expression('0'), buckets(5, 5, 5), buckets(5, 5, 5))).toEqual([]);
});

it('evaluates metrics of two agents', () => {
  const expression = new Expression('count(count by (seine) (info)) > 1');
  const seen = (...versions: readonly string[]): number => {
    const [tried = '', other = ''] = versions.map((version) => `info{seine="${version}"} 1`);
    const scrape = scrapeOf(0, tried, new Set(['info']), { text: other, only: new Set(['info']) });
    return firing([{ name: 'A', expression }], [scrape]).length;
  };
  expect([seen('1', '2'), seen('1', '1')]).toEqual([1, 0]);
});

it('rejects unsupported expressions', () => {
  expect(() => firingAlerts('topk(1, a)', 'a 1')).toThrow();
  expect(() => firingAlerts('a >', 'a 1')).toThrow();
});

it('supports every shipped alert', () => {
  const alerts = readAlerts();
  expect(alerts.map(({ name }) => name)).toContain('SeineDrift');
  expect(firing(alerts, [scrapeOf(0, metrics, new Set()), scrapeOf(1, metrics, new Set())])).toEqual([]);
});

it('SeineMeshPeers is true for nodes that are lost, slow or narrow, and SeineProblem leaves them to it', () => {
  const alerts = readAlerts().filter(({ name }) => name === 'SeineMeshPeers' || name === 'SeineProblem');
  const states = ['reached', 'slow', 'lost', 'mtu', 'unknown'];
  const firingFor = (state: string, peers: number): readonly string[] => {
    const lines = states.map((each) => `seine_agent_mesh_peers{state="${each}"} ${each === state ? peers : 0}`);
    const text = `${lines.join('\n')}\nseine_agent_problems{kind="mesh.peer"} ${peers}\n`;
    const wanted = new Set(['seine_agent_mesh_peers', 'seine_agent_problems']);
    return firing(alerts, [scrapeOf(0, text, wanted)]).map(({ description }) => description);
  };
  expect(states.filter((state) => firingFor(state, 1).length > 0)).toEqual(['slow', 'lost', 'mtu']);
  expect(firingFor('lost', 2)).toEqual(['SeineMeshPeers state=lost']);
  expect(firingFor('lost', 0)).toEqual([]);
});

it.each([
  ['SeineHistory', ['seine_agent_problems{kind="history"} 1'], 'seine_agent_problems{kind="object"} 1'],
  ['SeinePeerModes', ['seine_agent_problems{kind="peer.direct"} 1'], 'seine_agent_problems{kind="object"} 1'],
  ['SeinePeerRoutes', ['seine_agent_problems{kind="route.conflict"} 1', 'seine_agent_problems{kind="route.detour"} 2'], ''],
  [
    'SeinePeersBlocked',
    ['seine_agent_peer_modes{mode="blocked",family="ipv6"} 1'],
    'seine_agent_peer_modes{mode="wireguard",family="ipv6"} 1',
  ],
  [
    'SeineWireGuardHandshakes',
    ['seine_agent_wireguard_peers{handshake="stale"} 1', 'seine_agent_wireguard_peers{handshake="none"} 1'],
    'seine_agent_wireguard_peers{handshake="recent"} 4',
  ],
])('%s is true for what it names, and SeineProblem leaves that to it', (name, lines, other) => {
  const alerts = readAlerts().filter((alert) => alert.name === name || alert.name === 'SeineProblem');
  const wanted = new Set(alerts.flatMap(({ expression }) => expression.metrics));
  const names = (text: string): readonly string[] => firing(alerts, [scrapeOf(0, text, wanted)]).map((alert) => alert.name);
  for (const line of lines) {
    expect(names(line)).toEqual([name]);
    expect(names(line.replace(/\d$/, '0'))).toEqual([]);
  }
  expect(names(other)).not.toContain(name);
});

it('SeineCleartextDropped is true while packets are dropped that are not encrypted', () => {
  const alerts = readAlerts().filter(({ name }) => name === 'SeineCleartextDropped');
  const wanted = new Set(['seine_agent_cleartext_drops_total']);
  const after = (...counts: readonly number[]): number =>
    firing(
      alerts,
      counts.map((count, at) => scrapeOf(at, `seine_agent_cleartext_drops_total{family="ipv4"} ${count}`, wanted)),
    ).length;
  expect([after(3, 3), after(3, 4)]).toEqual([0, 1]);
});
