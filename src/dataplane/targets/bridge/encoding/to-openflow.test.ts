import { expect, it } from 'vitest';
import { packetInReason } from '../../../pipeline/well-known.ts';
import { copyController, packetInController, toActions, toOpenFlowMatch } from './to-openflow.ts';

it('sends copies for the flow log to a connection of their own: they delay no packet that waits for the agent', () => {
  const controllerOf = (reason: keyof typeof packetInReason): unknown => {
    const [action] = toActions([{ do: 'toAgent', reason }]);
    return action?.kind === 'controller' ? action.controller : undefined;
  };
  const reasons = Object.keys(packetInReason) as (keyof typeof packetInReason)[];
  const copied = reasons.filter((reason) => controllerOf(reason) === copyController);
  expect(copied).toEqual(['opened', 'ended', 'answered', 'seen']);
  expect(reasons.filter((reason) => !copied.includes(reason)).map(controllerOf)).toEqual(Array(8).fill(packetInController));
});

it('matches one flag of TCP, whatever the others, or only the one', () => {
  expect(toOpenFlowMatch({ protocol: 'tcp', tcpFlag: 'fin' }).tcp_flags).toEqual({ value: 1, mask: 1 });
  expect(toOpenFlowMatch({ protocol: 'tcp', tcpFlags: 'rst' }).tcp_flags).toEqual({ value: 4, mask: 0x3f });
});
