import { readFileSync } from 'node:fs'
import { runProcessNow, systemEnvironment } from '../../lib/child-process.ts'
import type { Say } from '../terminal/terminal.ts'
import { findProgram, isRoot, MissingPart } from './system-packages.ts'

export interface SystemUser {
  name: string
  uid: number
  gid: number
}

const userName = 'berth'

/** The user that Postgres runs as when we are root (it refuses root): made once. Null when we are not root. */
export function systemUser(say: Say): SystemUser | null {
  if (!isRoot()) return null
  const known = lookUp(userName)
  if (known) return known
  const useradd = findProgram('useradd', process.env.PATH)
  if (!useradd)
    throw new MissingPart(
      'Postgres does not run as root and useradd is missing. Install the package passwd, or run Berth as another user.',
    )
  say(`Making the system user "${userName}", as which Postgres runs`)
  const home = ['--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin']
  runProcessNow(useradd, ['--system', '--user-group', ...home, userName], { env: systemEnvironment })
  const made = lookUp(userName)
  if (!made) throw new MissingPart(`The system user "${userName}" was made, but /etc/passwd does not show it.`)
  return made
}

function lookUp(name: string): SystemUser | null {
  const fields = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map(line => line.split(':'))
    .find(([user]) => user === name)
  return fields ? { name, uid: Number(fields[2]), gid: Number(fields[3]) } : null
}
