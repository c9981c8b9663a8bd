import { acceptConfig } from '../../../../src/config/agent-config.ts';
import { SeineError } from '../../../../src/errors/seine-error.ts';
import { isRead, type Target } from '../target.ts';

const text = `nodeName: node-1
kubernetes: { kubeconfig: /etc/seine/kubeconfig }
stateDir: /var/lib/seine
defaultMTU: 1450
podInterface: veth
transportInterface: eth0
logLevel: info
`;

export const configTarget: Target = {
  name: 'config',
  what: "the agent's configuration",
  seeds: () => [Buffer.from(text), Buffer.from(JSON.stringify({ nodeName: 'node-1', proxy: { mode: 'auto' } }))],
  read: (bytes) =>
    isRead(
      () => acceptConfig(bytes.toString('utf8'), {}),
      (thrown) => thrown instanceof SeineError && thrown.code === 'INVALID_INPUT',
    ),
};
