import { registerCompletionHandler } from 'ava'

// Tests and their clean-up are over. The native core of the workflow library sometimes keeps a port open that nobody can close,
// and ava would wait for it until the whole run times out.
registerCompletionHandler(() => process.exit())
