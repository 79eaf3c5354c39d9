/**
 * A message of ours as tenants may read it: of each absolute path only the last name is left, which says what it is about. The folders
 * are the host's. Addresses of the web stay as they are.
 */
export function withoutFolders(message: string): string {
  return message.replace(/(?<![\w.:/])\/(?:[^\s'",:;()/]+\/)+/g, '')
}
