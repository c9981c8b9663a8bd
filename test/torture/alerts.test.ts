import { expect, it } from 'vitest';
import { firing, readAlert, readAlerts } from './alerts.ts';

const metrics = `# TYPE seine_agent_problems gauge
seine_agent_problems{kind="agent.ready"} 1
seine_agent_problems{kind="dns",about="a \\"b\\""} 2
seine_agent_ready 0
seine_agent_look_age_seconds{look="cni"} 9
seine_agent_look_age_seconds{look="journal"} 3
seine_agent_look_round_seconds{look="cni"} 8
seine_agent_look_round_seconds{look="journal"} 8
`;

const told = (expression: string): readonly string[] => firing(readAlert('A', expression), metrics);

it('tells by one look which alerts are true, with the labels that they are true of', () => {
  expect(told('seine_agent_ready == 0')).toEqual(['A ']);
  expect(told('seine_agent_problems{kind!~"agent.*|object"} > 0')).toEqual(['A about=a \\"b\\",kind=dns']);
  expect(told('seine_agent_problems{kind="agent.ready"} > 1.5e9')).toEqual([]);
  expect(told('seine_agent_look_age_seconds > seine_agent_look_round_seconds')).toEqual(['A look=cni']);
  expect(told('seine_agent_not_there == 0')).toEqual([]);
});

it('leaves out what takes more than one look', () => {
  expect(readAlert('A', 'increase(seine_agent_drift_entries_total[1h]) > 0')).toEqual([]);
  expect(readAlert('A', 'a == 0 and b == 1')).toEqual([]);
});

it('reads most alerts that ship', () => {
  const names = readAlerts().map(({ name }) => name);
  expect(names).toContain('SeineProblem');
  expect(names).toContain('SeineContested');
  expect(names).toContain('SeineNotAsWanted');
  expect(names.length).toBeGreaterThan(20);
});
