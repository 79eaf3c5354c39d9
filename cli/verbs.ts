import type { Command } from 'commander'
import { retentionTimes } from '../policy/retention.ts'

/** A command of `berth`: what it is for, and the function of its own module that adds it to the program. */
export interface Verb {
  description: string
  load(): Promise<(program: Command) => void>
}

/** Every verb by its name. Only the given one is loaded: all of them together take a second of processor time. */
export const verbs: Record<string, Verb> = {
  up: {
    description: 'start the platform, and install what is missing',
    load: async () => (await import('./up.ts')).upCommand,
  },
  down: {
    description: 'stop the platform; applications and databases keep running, data stays',
    load: async () => (await import('./down.ts')).downCommand,
  },
  ps: {
    description: 'the running processes of the platform',
    load: async () => (await import('./ps.ts')).psCommand,
  },
  info: {
    description: 'addresses and credentials of the running platform',
    load: async () => (await import('./info.ts')).infoCommand,
  },
  logs: {
    description: 'the newest log lines of one part, or of all parts',
    load: async () => (await import('./logs.ts')).logsCommand,
  },
  deploy: {
    description: 'upload a folder or zip with a berth.app, and follow it until it answers',
    load: async () => (await import('./deploy.ts')).deployCommand,
  },
  login: {
    description: 'request a key for 90 days in a browser; deploy --url then uses it',
    load: async () => (await import('./login.ts')).loginCommand,
  },
  logout: {
    description: 'remove the key of berth login from this machine',
    load: async () => (await import('./login.ts')).logoutCommand,
  },
  users: {
    description: 'accounts',
    load: async () => (await import('./users.ts')).usersCommand,
  },
  plans: {
    description: 'what each plan grants, in the order of downgrades',
    load: async () => (await import('./plans.ts')).plansCommand,
  },
  keys: {
    description: 'API keys',
    load: async () => (await import('./keys.ts')).keysCommand,
  },
  secrets: {
    description: 'the keys that encrypt tokens and variables, and other secrets',
    load: async () => (await import('./secrets/secrets.ts')).secretsCommand,
  },
  ai: {
    description: 'the AI gateway: its language models, calls in flight, tokens used',
    load: async () => (await import('./ai/ai.ts')).aiCommand,
  },
  databases: {
    description: 'managed databases: status, diagnosis and maintenance',
    load: async () => (await import('./databases/databases.ts')).databasesCommand,
  },
  domains: {
    description: 'custom domains: ownership, certificates, and what they wait for',
    load: async () => (await import('./domains/domains.ts')).domainsCommand,
  },
  certificates: {
    description: 'certificates of host names',
    load: async () => (await import('./domains/domains.ts')).certificatesCommand,
  },
  host: {
    description: 'add a container host, in the foreground',
    load: async () => (await import('./host.ts')).hostCommand,
  },
  ops: {
    description: 'operations of applications and databases: why one waits or failed; retry and cancel',
    load: async () => (await import('./ops.ts')).opsCommand,
  },
  audit: {
    description: `who requested what, newest first; retained for ${retentionTimes.auditDays} days`,
    load: async () => (await import('./audit.ts')).auditCommand,
  },
  blob: {
    description: 'blob storage: verify what is stored, import files',
    load: async () => (await import('./blob.ts')).blobCommand,
  },
  hosts: {
    description: 'the container hosts',
    load: async () => (await import('./hosts/hosts.ts')).hostsCommand,
  },
  adopt: {
    description: 'make this data folder and object store belong to this database, after moving them on purpose',
    load: async () => (await import('./adopt.ts')).adoptCommand,
  },
  mail: {
    description: 'mail to owners of applications',
    load: async () => (await import('./mail.ts')).mailCommand,
  },
  doctor: {
    description: 'check protections, parts, ports, disk and versions, and say what to do',
    load: async () => (await import('./doctor.ts')).doctorCommand,
  },
  test: {
    description: 'run every check and test, with the services that they need; ends with "N passed, N failed"',
    load: async () => (await import('./test.ts')).testCommand,
  },
}
