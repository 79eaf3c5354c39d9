/** Whether a text is a repository's owner/name, and cannot be another address of the provider. */
export function isRepositoryName(text: string): boolean {
  const parts = text.split('/')
  return parts.length === 2 && parts.every(part => /^[\w.-]{1,100}$/.test(part) && !/^\.+$/.test(part))
}
