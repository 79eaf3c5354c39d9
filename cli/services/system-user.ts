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

/** The user that runs Postgres when we are root, which Postgres refuses; created once. Null when we are not root. */
export function systemUser(say: Say): SystemUser | null {
  if (!isRoot()) return null
  const existing = lookUp(userName)
  if (existing) return existing
  const useradd = findProgram('useradd', process.env.PATH)
  if (!useradd)
    throw new MissingPart(
      'Postgres does not run as root and useradd is missing. Install the package passwd, or run Berth as another user.',
    )
  say(`Creating the system user "${userName}", which runs Postgres`)
  const home = ['--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin']
  runProcessNow(useradd, ['--system', '--user-group', ...home, userName], { env: systemEnvironment })
  const created = lookUp(userName)
  if (!created) throw new MissingPart(`The system user "${userName}" was created, but /etc/passwd does not list it.`)
  return created
}

function lookUp(name: string): SystemUser | null {
  const fields = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map(line => line.split(':'))
    .find(([user]) => user === name)
  return fields ? { name, uid: Number(fields[2]), gid: Number(fields[3]) } : null
}
