import { Doorbell } from '../base/async/wake-signal.ts';

/** What kernel and switch report, for the parts of the agent that follow it. */
export class NodeChanges {
  /** The gateway's interface was made anew. */
  readonly gatewayMade = new Doorbell();
  /** The node's own interfaces or their addresses may have changed. */
  readonly interfaces = new Doorbell();
  /** ovs-vswitchd has come, or publishes other capabilities of its datapath. */
  readonly datapath = new Doorbell();
  /** Tables of the packet filter that are not Seine's have changed. */
  readonly foreignFirewall = new Doorbell();
  /** The gateway's interface was deleted. */
  readonly gatewayGone = new Doorbell();
}
