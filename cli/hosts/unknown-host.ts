/** For the name of a host that an operator typed: it is none of these. */
export const unknownHost = (name: string, hosts: Iterable<{ id: string }>): Error =>
  new Error(`There is no host "${name}". Hosts: ${Array.from(hosts, ({ id }) => id).join(', ')}`)
