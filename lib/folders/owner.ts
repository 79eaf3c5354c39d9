/** User and group of a file. */
export interface Owner {
  uid: number
  gid: number
}
