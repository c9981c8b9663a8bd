import { Doorbell } from '../base/async/wake-signal.ts';

/** Changes that kernel and OVS report, for the parts of the agent that follow them. */
export class NodeChanges {
  /** The gateway's interface was recreated. */
  readonly gatewayMade = new Doorbell();
  /** The node's own interfaces or their addresses may have changed. */
  readonly interfaces = new Doorbell();
  /** ovs-vswitchd has started, or publishes other capabilities of its data path. */
  readonly datapath = new Doorbell();
  /** nftables tables of other programs have changed. */
  readonly foreignFirewall = new Doorbell();
  /** The gateway's interface was deleted. */
  readonly gatewayGone = new Doorbell();
}
