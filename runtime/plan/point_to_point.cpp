// Send and receive: one step each, of two ranks that need not know more of each other.
//
//   rank 1: send(2)  --x-->  rank 2: receive(1)
//
// A short message is sent, so that the sender may go on before the receiver asks for it; a long one is lent, so that it
// is copied once where links can.  The receiver's step is the same for both.
#include "plan/schedules.h"

namespace rondo::plan {

Plan send_to(int peer, bool lends) {
  return one_strand({{.operation = lends ? Operation::lend : Operation::send, .to = {peer}, .source = in(0)}});
}

Plan receive_from(int peer) {
  return one_strand({{.operation = Operation::recv_copy, .from = {peer}, .target = out(0)}});
}

}  // namespace rondo::plan
