import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { messageOf } from '../lib/message-of.ts'
import { checkout } from './installation/installation.ts'
import { guardTerminal } from './terminal/printable.ts'
import { verbs } from './verbs.ts'

const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string }

const program = new Command('berth')
  .description('Berth: a zip becomes a running application. Start with: berth up')
  .version(version)
  .showHelpAfterError()
  .addHelpText('after', '\nData is in the folder that BERTH_DATA names, otherwise in data/ of the checkout.')

const [first = '', second = ''] = process.argv.slice(2).filter(word => word !== '--')
const given = first === 'help' ? second : first
if (Object.hasOwn(verbs, given)) (await verbs[given]!.load())(program)
else {
  // The list of commands takes their names and descriptions alone.
  for (const name of Object.keys(verbs)) program.command(name)
  program.configureHelp({ subcommandTerm: command => command.name() })
}
for (const command of program.commands) command.description(verbs[command.name()]!.description)

guardTerminal(console)
program.parseAsync().then(
  () => process.exit(process.exitCode ?? 0),
  error => {
    const message = messageOf(error)
    console.error(process.env.BERTH_DEBUG ? error : message)
    if (process.connected) process.send?.({ say: message }) // to the command that started this process in the background
    process.exit(1)
  },
)
