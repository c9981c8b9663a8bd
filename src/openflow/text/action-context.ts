import type { Action } from '../actions/action.ts';
import type { Match } from '../match/match.ts';
import type { TextNumbers } from './parse-value.ts';

/** What the text of an action may depend on: names, and the match of its flow (`mod_tp_dst` of TCP or UDP). */
export interface ActionContext {
  readonly numbers: TextNumbers;
  readonly match: Match;
  /** Whether the packet has a VLAN tag where the reading stands: `mod_vlan_vid` pushes one if not. */
  readonly vlan: { present: boolean };
  /** Reads a list of actions inside the action. */
  nested(text: string): Action[];
}
