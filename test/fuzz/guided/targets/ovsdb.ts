import { conversation, sound } from '../../ovsdb-conversation.ts';
import type { Target } from '../target.ts';

export const ovsdbTarget: Target = {
  name: 'ovsdb',
  what: 'bytes of OVSDB: JSON-RPC, and updates of the replica',
  seeds: () => sound,
  read: (bytes) => conversation([bytes.subarray(0, bytes.length >> 1), bytes.subarray(bytes.length >> 1)]) === 'read',
};
