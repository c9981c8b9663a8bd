import type { Action } from '../actions/action.ts';
import type { Match } from '../match/match.ts';
import type { TextNumbers } from './parse-value.ts';

/** Context for the text of an action: names, and the match of its flow (`mod_tp_dst` of TCP or UDP). */
export interface ActionContext {
  readonly numbers: TextNumbers;
  readonly match: Match;
  /** Set if the packet has a VLAN tag at this point of the list: `mod_vlan_vid` pushes one if not. */
  readonly vlan: { present: boolean };
  /** Reads a list of actions inside the action. */
  nested(text: string): Action[];
}
