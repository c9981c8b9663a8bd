import { SeineError } from '../../../base/errors/seine-error.ts';
import { changeLink, getLinkOffThread } from '../../../netlink/links.ts';
import { Batch } from '../../../netlink/message.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';
import type { HostLink } from '../../desired/host-entries.ts';

/**
 * Changes the gateway's link to the desired state. Writes what differs: after a write of its present address the kernel forgets all
 * neighbours of an interface.
 *
 * @throws SeineError `UNAVAILABLE` if there is no such interface
 */
export async function changeGateway(socket: NetlinkSocket, { name, mtu, mac }: HostLink): Promise<void> {
  const present = await getLinkOffThread(socket, name);
  if (present === undefined) throw new SeineError('UNAVAILABLE', `there is no interface ${name} yet`);
  const batch = new Batch();
  changeLink(batch, present.index, {
    state: 'up',
    arp: 'on',
    ...(present.master === undefined ? {} : { master: 'none' }),
    ...(present.mtu === mtu ? {} : { mtu }),
    ...(present.mac === mac ? {} : { mac }),
  });
  await socket.transactOffThread(batch);
}
