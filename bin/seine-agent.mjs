#!/usr/bin/env node
import { agentEnvironment, agentFlags, launch } from './launch.mjs';

await launch('seine-agent.mjs', 'src/agent/main.ts', agentFlags(), agentEnvironment());
