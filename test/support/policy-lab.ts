import { Readable } from 'node:stream';
import { nodePaths } from '../../lab/plan/names.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { plain } from '../../src/seinectl/paint.ts';
import type { Verification } from '../../src/seinectl/policy/verification.ts';
import { run } from '../../src/seinectl/program.ts';
import type { Aim, ServiceLab } from './service-lab.ts';
import { slowness } from './test-datapath.ts';

const policies = '/apis/networking.k8s.io/v1/namespaces/demo/networkpolicies';
const patience = () => AbortSignal.timeout(20_000 * slowness);

/** Output of a command, and its exit code. */
interface Answer {
  readonly code: number;
  readonly text: string;
}

type VerifyView = Pick<Verification, 'pods' | 'leftOut' | 'cells' | 'allowed' | 'denied' | 'differences' | 'problems'>;

/** Policies of the namespace `demo` of a lab, and what `seinectl` says about them on node 1, which has `web-1`. */
export class PolicyLab {
  readonly #lab: ServiceLab;

  constructor(lab: ServiceLab) {
    this.#lab = lab;
  }

  async create(name: string, spec: object): Promise<void> {
    const body = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name }, spec };
    await this.#lab.lab.api.send({ method: 'POST', path: policies, body }, patience());
  }

  /** An absent one is fine: the test has failed before it was created. */
  async withdraw(name: string): Promise<void> {
    await this.#lab.lab.api.send({ method: 'DELETE', path: `${policies}/${name}` }, patience()).catch((error: unknown) => {
      if (!(error instanceof SeineError && error.context['status'] === 404)) throw error;
    });
  }

  /** Connections of a client pod to a pod over IPv4. */
  client(n: number, to: string): Aim {
    return { from: `client-${n}`, address: this.#lab.ip(to, 'ipv4'), port: 80 };
  }

  async seinectl(...args: readonly string[]): Promise<Answer> {
    const out: string[] = [];
    const terminal = {
      room: { width: Number.POSITIVE_INFINITY, paint: plain },
      line: (text: string) => void out.push(text),
      remark: () => undefined,
    };
    const { lab } = this.#lab;
    const socket = nodePaths(lab.plan.dir, lab.node(1).name).apiSocket;
    const code = await run(['--socket', socket, ...args], terminal, Readable.from([]));
    return { code, text: out.join('\n') };
  }

  /** Answer of a verb of `seinectl policy`. */
  async asked<View>(...args: readonly string[]): Promise<{ readonly code: number; readonly view: View }> {
    const { code, text } = await this.seinectl('policy', ...args, '-o', 'json');
    return { code, view: JSON.parse(text) as View };
  }

  async verified(): Promise<{ readonly code: number; readonly view: VerifyView }> {
    return await this.asked<VerifyView>('verify');
  }
}
