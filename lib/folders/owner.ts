/** The user and the group that something belongs to. */
export interface Owner {
  uid: number
  gid: number
}
