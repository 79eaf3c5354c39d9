import type { Command } from 'commander'

const login = async () => (await import('./login.ts')).loginCommand

/** The module of each verb, loaded only for the given one: all of them together take a second of processor time. */
export const verbs: Record<string, () => Promise<(program: Command) => void>> = {
  up: async () => (await import('./up.ts')).upCommand,
  down: async () => (await import('./down.ts')).downCommand,
  ps: async () => (await import('./ps.ts')).psCommand,
  info: async () => (await import('./info.ts')).infoCommand,
  logs: async () => (await import('./logs.ts')).logsCommand,
  deploy: async () => (await import('./deploy.ts')).deployCommand,
  login,
  logout: login,
  users: async () => (await import('./users.ts')).usersCommand,
  plans: async () => (await import('./plans.ts')).plansCommand,
  keys: async () => (await import('./keys.ts')).keysCommand,
  secrets: async () => (await import('./key-rotation.ts')).secretsCommand,
  ai: async () => (await import('./ai/ai.ts')).aiCommand,
  databases: async () => (await import('./databases/databases.ts')).databasesCommand,
  domains: async () => (await import('./domains/domains.ts')).domainsCommand,
  certificates: async () => (await import('./domains/domains.ts')).certificatesCommand,
  host: async () => (await import('./host.ts')).hostCommand,
  ops: async () => (await import('./ops.ts')).opsCommand,
  audit: async () => (await import('./audit.ts')).auditCommand,
  blob: async () => (await import('./blob.ts')).blobCommand,
  hosts: async () => (await import('./hosts.ts')).hostsCommand,
  adopt: async () => (await import('./adopt.ts')).adoptCommand,
  mail: async () => (await import('./mail.ts')).mailCommand,
  doctor: async () => (await import('./doctor.ts')).doctorCommand,
  test: async () => (await import('./test.ts')).testCommand,
}
