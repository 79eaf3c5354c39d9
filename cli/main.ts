import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { adoptCommand } from './adopt.ts'
import { auditCommand } from './audit.ts'
import { blobCommand } from './blob.ts'
import { deployCommand } from './deploy.ts'
import { doctorCommand } from './doctor.ts'
import { downCommand } from './down.ts'
import { hostCommand } from './host.ts'
import { hostsCommand } from './hosts.ts'
import { infoCommand } from './info.ts'
import { checkout } from './installation/installation.ts'
import { secretsCommand } from './key-rotation.ts'
import { keysCommand } from './keys.ts'
import { loginCommand } from './login.ts'
import { logsCommand } from './logs.ts'
import { mailCommand } from './mail.ts'
import { opsCommand } from './ops.ts'
import { plansCommand } from './plans.ts'
import { psCommand } from './ps.ts'
import { guardTerminal } from './terminal/printable.ts'
import { testCommand } from './test.ts'
import { upCommand } from './up.ts'
import { usersCommand } from './users.ts'

const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string }

const program = new Command('berth')
  .description('Berth: a zip becomes a running application. Start with: berth up')
  .version(version)
  .showHelpAfterError()
  .addHelpText('after', '\nData lies in the folder that BERTH_DATA names, else in data/ of the checkout.')

for (const add of [
  upCommand,
  downCommand,
  psCommand,
  infoCommand,
  logsCommand,
  deployCommand,
  loginCommand,
  usersCommand,
  plansCommand,
  keysCommand,
  secretsCommand,
  hostCommand,
  opsCommand,
  auditCommand,
  blobCommand,
  hostsCommand,
  adoptCommand,
  mailCommand,
  doctorCommand,
  testCommand,
])
  add(program)

guardTerminal(console)
program.parseAsync().then(
  () => process.exit(process.exitCode ?? 0),
  error => {
    const message = error instanceof Error ? error.message : String(error)
    console.error(process.env.BERTH_DEBUG ? error : message)
    if (process.connected) process.send?.({ say: message }) // to the person who started us in the background
    process.exit(1)
  },
)
