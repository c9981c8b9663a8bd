import { SeineError } from '../../../../src/base/errors/seine-error.ts';
import { OpenFlowFramer } from '../../../../src/openflow/connection/framer.ts';
import { corpus } from '../../openflow-messages.ts';
import { survive } from '../../openflow-survival.ts';
import { isRead, type Target } from '../target.ts';

export const openflowTarget: Target = {
  name: 'openflow',
  what: 'bytes of OVS: OpenFlow 1.3 and 1.5, divided into messages and as one',
  seeds: () => corpus,
  read: async (bytes) => {
    let read = false;
    await isRead(
      () => {
        for (const message of new OpenFlowFramer().push(bytes)) read = survive(Uint8Array.from(message)).kind === 'read' || read;
      },
      (thrown) => thrown instanceof SeineError && thrown.code === 'PROTOCOL',
    );
    if (bytes.length < 8) return read;
    // Whatever length its header has.
    const whole = Uint8Array.from(bytes.subarray(0, 0xffff));
    new DataView(whole.buffer).setUint16(2, whole.length);
    return survive(whole).kind === 'read' || read;
  },
};
