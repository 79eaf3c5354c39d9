/**
 * A message in the form that tenants may read: of each absolute path only the last name is left, because the folders are the
 * host's. URLs stay unchanged.
 */
export function withoutFolders(message: string): string {
  return message.replace(/(?<![\w.:/])\/(?:[^\s'",:;()/]+\/)+/g, '')
}
